"""What is taken for a classifier, and what is not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from common.command_line import UsageError
from export.model_directory import load_model, trained_on_pairs
from export.task import describe_task
from tests.export.models import Artefacts, make_classifier


def copy_of(model: Path, tmp_path: Path) -> Path:
    shutil.copytree(model, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_backbone_gets_no_random_head(tmp_path: Path) -> None:
    classifier = make_classifier()
    classifier.backbone.save_to_preset(str(tmp_path))
    with pytest.raises(UsageError, match="the backbone has no tokenizer beside it"):
        load_model(tmp_path)
    classifier.preprocessor.tokenizer.save_to_preset(str(tmp_path))
    encoder = load_model(tmp_path)
    assert describe_task(encoder, pairs=False).kind == "backbone"
    # As long as the position table: nobody recorded what it was trained with.
    assert encoder.preprocessor.sequence_length == 64


def test_a_classifier_without_its_head_is_refused(
    artefacts: Artefacts, tmp_path: Path
) -> None:
    copy = copy_of(artefacts.model(), tmp_path)
    (copy / "task.weights.h5").unlink()
    with pytest.raises(UsageError, match=r"task\.weights\.h5 is missing"):
        load_model(copy)


def test_other_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        load_model(tmp_path / "absent")
    with pytest.raises(UsageError, match="no model"):
        load_model(tmp_path)
    (tmp_path / "task.json").write_text("{")
    with pytest.raises(UsageError, match=r"task\.json: expected JSON"):
        load_model(tmp_path)


def test_damaged_weights_are_refused(artefacts: Artefacts, tmp_path: Path) -> None:
    copy = copy_of(artefacts.model(), tmp_path)
    (copy / "task.weights.h5").write_bytes(b"not a weights file")
    with pytest.raises(UsageError, match="cannot be loaded"):
        load_model(copy)


def test_pairs_come_from_what_trained_the_model(artefacts: Artefacts) -> None:
    assert trained_on_pairs(artefacts.model("pairs"))
    assert not trained_on_pairs(artefacts.model())


def test_a_half_precision_classifier_is_exported_in_float32(tmp_path: Path) -> None:
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        make_classifier().save_to_preset(str(tmp_path))
    finally:
        keras.config.set_dtype_policy("float32")
    config = json.loads((tmp_path / "task.json").read_text())["config"]
    dtype = config["backbone"]["config"]["dtype"]["config"]["name"]
    assert dtype == "mixed_bfloat16"
    assert load_model(tmp_path).backbone.compute_dtype == "float32"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preprocessor": None}, "no preprocessor"),
        ({"num_classes": 1}, "at least 2 classes"),
        ({"activation": "tanh"}, "Received: tanh"),
    ],
)
def test_what_cannot_be_exported_says_why(
    classifier: Any,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    message: str,
) -> None:
    import keras

    for name, value in change.items():
        if name == "activation":
            value = keras.activations.get(value)
        monkeypatch.setattr(classifier, name, value)
    with pytest.raises(UsageError, match=message):
        describe_task(classifier, pairs=False)
