"""Single files: `.keras`, safetensors and LiteRT."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from common.model_card import write_directory_card
from export.other_formats import read_safetensors
from tests.export.models import TEXTS, Artefacts, run

pytestmark = pytest.mark.export


def test_a_keras_file_answers_alike(
    artefacts: Artefacts, classifier: Any, tmp_path: Path
) -> None:
    file = tmp_path / "clf.keras"
    words = ("file", "--model", artefacts.model(), "--output", file)
    result = run(*words, "--format", "keras")
    assert result.status == 0, result.errors
    loaded = keras.models.load_model(file)
    np.testing.assert_allclose(
        loaded.predict(list(TEXTS), verbose=0),
        classifier.predict(list(TEXTS), verbose=0),
        atol=1e-6,
    )
    card = tmp_path / "clf.keras.model_card.md"
    assert "An `LVBertTextClassifier`" in card.read_text(encoding="utf-8")
    again = run(*words, "--format", "keras")
    assert again.status == 2
    assert "exists" in again.errors
    wrong = run(*words, "--format", "safetensors")
    assert wrong.status == 2
    assert "ending in .safetensors" in wrong.errors


def test_safetensors_hold_every_weight(
    artefacts: Artefacts, classifier: Any, tmp_path: Path
) -> None:
    file = tmp_path / "clf.safetensors"
    result = run(
        *("file", "--model", artefacts.model(), "--output", file),
        *("--format", "safetensors"),
    )
    assert result.status == 0, result.errors
    found = read_safetensors(file)
    assert len(found) == len(classifier.weights)
    for weight in classifier.weights:
        np.testing.assert_array_equal(found[weight.path], weight.numpy())
    # The header, as the format's description has it.
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    assert (8 + length) % 8 == 0
    header = json.loads(content[8 : 8 + length])
    assert header["__metadata__"]["class"] == "LVBertTextClassifier"
    config = json.loads(header["__metadata__"]["backbone"])
    assert config["architecture"] == "csf"
    ends = [
        value["data_offsets"] for key, value in header.items() if key != "__metadata__"
    ]
    assert sorted(ends)[-1][1] == len(content) - 8 - length


# With feed-forward layers (plain) and without.
@pytest.mark.parametrize("model", ["mixing", "plain"])
def test_litert_runs_and_agrees(
    artefacts: Artefacts, tmp_path: Path, model: str
) -> None:
    pytest.importorskip("ai_edge_litert")
    result = run(
        *("file", "--model", artefacts.model(model), "--format", "litert"),
        *("--output", tmp_path / "clf.tflite", "--sequence-length", "16"),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    assert 0 <= result.output["max_abs_difference"] < result.output["tolerance"]
    assert (result.output["batch"], result.output["sequence_length"]) == (1, 16)


@pytest.mark.parametrize(
    ("model", "extra", "message"),
    [
        ("mixing", ["--sequence-length", "65"], "expected at most 64"),
        ("official-mixing", ["--sequence-length", "16"], "computes at 40 tokens only"),
        ("masked_lm", [], "expected a classifier or a regression"),
    ],
)
def test_what_litert_cannot_do(
    artefacts: Artefacts, tmp_path: Path, model: str, extra: list[str], message: str
) -> None:
    result = run(
        *("file", "--model", artefacts.model(model), "--format", "litert"),
        *("--output", tmp_path / "clf.tflite", *extra),
    )
    assert result.status == 2
    assert message in result.errors
    assert list(tmp_path.iterdir()) == []


def test_the_card_of_a_model_directory(artefacts: Artefacts, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(artefacts.model("masked_lm"), directory)
    (directory / "training.json").unlink()
    write_directory_card(directory)
    card = (directory / "model_card.md").read_text(encoding="utf-8")
    assert "An `LVBertMaskedLM`" in card
    assert "`csf`" in card
    assert "Parameters of the backbone:" in card
    assert "Unknown: the model directory has no `training.json`." in card
    trained = tmp_path / "trained"
    shutil.copytree(artefacts.model(), trained)
    write_directory_card(trained)
    assert "* Stage: finetune" in (trained / "model_card.md").read_text()
