"""``python -m export check``: passes, and fails with figures (O07)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from common.hashes import weights_sha256
from export.vocabulary_cases import EVERY_ID
from tests.export.models import VOCABULARY, Artefacts, make_classifier, perturb, run

pytestmark = pytest.mark.export


@pytest.mark.parametrize(
    ("kind", "folder"), [("saved_model", ""), ("saved_model", "1"), ("onnx", "")]
)
def test_an_export_passes(artefacts: Artefacts, kind: str, folder: str) -> None:
    path = (artefacts.onnx if kind == "onnx" else artefacts.saved_model)() / folder
    result = run("check", "--model", artefacts.model(), "--artefact", path)
    assert result.status == 0, result.errors
    assert result.output is not None
    assert result.output["kind"] == kind
    assert result.output["passed"] is True
    assert 0 < result.output["max_abs_difference"] <= result.output["tolerance"]


@pytest.mark.parametrize("kind", ["saved_model", "onnx"])
def test_perturbed_weights_fail_with_difference_and_tolerance(
    artefacts: Artefacts, tmp_path: Path, kind: str
) -> None:
    classifier = make_classifier()
    perturb(classifier, seed=9, size=0.01)
    classifier.save_to_preset(str(tmp_path / "perturbed"))
    path = artefacts.onnx() if kind == "onnx" else artefacts.saved_model()
    result = run("check", "--model", tmp_path / "perturbed", "--artefact", path)
    assert result.status == 1
    assert result.output is not None
    assert result.output["passed"] is False
    assert result.output["max_abs_difference"] > result.output["tolerance"]
    assert f"{result.output['max_abs_difference']:.3g}" in result.errors
    assert f"tolerance {result.output['tolerance']:.3g}" in result.errors
    loose = run(
        *("check", "--model", tmp_path / "perturbed", "--artefact", path),
        *("--tolerance", "1"),
    )
    # A tolerance excuses a difference, not another model.
    assert loose.status == 1
    assert loose.output is not None
    assert loose.output["max_abs_difference"] < loose.output["tolerance"]
    assert loose.output["same_model"] is False
    assert "made from another model: weights_sha256" in loose.errors


@pytest.mark.parametrize("kind", ["saved_model", "onnx"])
def test_rows_that_few_texts_show_are_read(
    artefacts: Artefacts, tmp_path: Path, kind: str
) -> None:
    """One row of the word table shifted, and the manifest says nothing of it."""
    classifier = make_classifier()
    table = next(w for w in classifier.weights if w.shape[0] == len(VOCABULARY))
    values = table.numpy()
    # One column: a shift of all is lost in the embeddings' normalisation.
    values[-1, 0] += 2.0
    table.assign(values)
    classifier.save_to_preset(str(tmp_path / "shifted"))
    original = artefacts.onnx() if kind == "onnx" else artefacts.saved_model() / "1"
    shutil.copytree(original, tmp_path / "artefact")
    extra = tmp_path / "artefact" / ("" if kind == "onnx" else "assets.extra")
    manifest = json.loads((extra / "manifest.json").read_text())
    manifest["model"]["weights_sha256"] = weights_sha256(classifier.weights)
    (extra / "manifest.json").write_text(json.dumps(manifest))
    result = run(
        *("check", "--model", tmp_path / "shifted"),
        *("--artefact", tmp_path / "artefact"),
    )
    assert result.status == 1
    assert result.output is not None
    assert result.output["same_model"] is True
    assert result.output["cases"][EVERY_ID] > result.output["tolerance"]


@pytest.mark.parametrize("kind", ["saved_model", "onnx"])
def test_a_head_weight_off_by_a_thousandth_fails(
    artefacts: Artefacts, tmp_path: Path, kind: str
) -> None:
    classifier = make_classifier()
    bias = classifier.output_dense.bias
    bias.assign(bias + np.array([1e-3, 0.0, 0.0], "float32"))
    classifier.save_to_preset(str(tmp_path / "head"))
    path = artefacts.onnx() if kind == "onnx" else artefacts.saved_model()
    result = run("check", "--model", tmp_path / "head", "--artefact", path)
    assert result.status == 1
    assert "scores differ from Keras by up to" in result.errors
    assert "weights_sha256" in result.errors


def test_a_version_without_a_manifest_is_said_to_have_none(
    artefacts: Artefacts, tmp_path: Path
) -> None:
    shutil.copytree(artefacts.saved_model() / "1", tmp_path / "1")
    (tmp_path / "1" / "assets.extra" / "manifest.json").unlink()
    result = run("check", "--model", artefacts.model(), "--artefact", tmp_path)
    assert result.status == 0
    assert result.output is not None
    assert result.output["same_model"] is None
    assert "no manifest, so that hashes were not compared" in result.errors


def test_an_altered_saved_model_is_found(artefacts: Artefacts, tmp_path: Path) -> None:
    copy = tmp_path / "clf" / "1"
    shutil.copytree(artefacts.saved_model() / "1", copy)
    data = next((copy / "variables").glob("variables.data*"))
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    result = run("check", "--model", artefacts.model(), "--artefact", copy)
    assert result.status == 1
    assert "was altered" in result.errors


def test_other_labels_fail(artefacts: Artefacts, tmp_path: Path) -> None:
    labels = ("a", "b", "c")
    make_classifier(labels=labels).save_to_preset(str(tmp_path / "model"))
    for path, message in (
        (artefacts.onnx(), "labels.json: expected ['a', 'b', 'c']"),
        (artefacts.saved_model(), "tokens 1x1: expected the labels ["),
    ):
        result = run("check", "--model", tmp_path / "model", "--artefact", path)
        assert result.status == 1
        assert message in result.errors


def test_a_model_of_another_kind(artefacts: Artefacts) -> None:
    result = run(
        *("check", "--model", artefacts.model("masked_lm")),
        *("--artefact", artefacts.onnx()),
    )
    assert result.status == 1
    assert "expected a model of kind masked_lm" in result.errors


def test_what_is_no_artefact(artefacts: Artefacts, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    result = run("check", "--model", artefacts.model(), "--artefact", tmp_path)
    assert result.status == 2
    assert "notes.txt" in result.errors


def test_a_tolerance_is_a_positive_number(artefacts: Artefacts) -> None:
    for value in ("0", "-1", "nan", "x"):
        result = run(
            *("check", "--model", artefacts.model(), "--artefact", "x"),
            f"--tolerance={value}",
        )
        assert result.status == 2
        assert "positive number" in result.errors


def test_a_manifest_that_is_none(artefacts: Artefacts, tmp_path: Path) -> None:
    copy = tmp_path / "onnx"
    shutil.copytree(artefacts.onnx(), copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    for content, message in (
        ("{", "not a manifest"),
        ("[]", "not a manifest"),
        (json.dumps(manifest | {"format_version": 99}), "format_version"),
    ):
        (copy / "manifest.json").write_text(content)
        result = run("check", "--model", artefacts.model(), "--artefact", copy)
        assert result.status == 1
        assert message in result.errors
