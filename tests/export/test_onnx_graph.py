"""The ONNX artefact."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from export import onnx_encoder, onnx_graph
from export.manifest import ManifestError, read_manifest
from tests.export.models import (
    LABELS,
    MAX_SEQUENCE_LENGTH,
    SEQUENCE_LENGTH,
    VOCABULARY,
    Artefacts,
    run,
)

pytestmark = pytest.mark.export

# `erf` and `softmax` of onnxruntime round otherwise than TensorFlow's.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def directory(artefacts: Artefacts) -> Path:
    return artefacts.onnx()


def random_batch(rows: int, tokens: int) -> dict[str, Any]:
    """Ids, both segments, and rows of which all but the first have padding."""
    generator = np.random.default_rng(rows * 1000 + tokens)
    lengths = np.maximum(1, tokens - np.arange(rows) * (tokens // 4))[:, None]
    mask = (np.arange(tokens) < lengths).astype("int64")
    return {
        "input_ids": generator.integers(0, len(VOCABULARY), (rows, tokens)),
        "segment_ids": generator.integers(0, 2, (rows, tokens)),
        "padding_mask": mask,
    }


# Keras takes the softmax over one key, of a one-token text, for a mistake.
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize(
    ("rows", "tokens"), [(1, 1), (1, 7), (3, 33), (5, MAX_SEQUENCE_LENGTH)]
)
def test_any_batch_and_length_gives_what_keras_gives(
    directory: Path, classifier: Any, rows: int, tokens: int
) -> None:
    # O01
    batch = random_batch(rows, tokens)
    session = onnxruntime.InferenceSession(str(directory / "model.onnx"))
    (scores,) = session.run(["scores"], batch)
    keras_batch = {"token_ids": batch["input_ids"]} | {
        name: batch[name] for name in ("segment_ids", "padding_mask")
    }
    logits = classifier(keras_batch, training=False).numpy().astype("float64")
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    expected = exponentials / exponentials.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE)


def test_names_types_and_axes(directory: Path) -> None:
    # O03: names that are promised, none of Keras's or the converter's making.
    model = onnx.load(directory / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 20
    described = [
        (
            value.name,
            onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type),
            [
                dim.dim_param or dim.dim_value
                for dim in value.type.tensor_type.shape.dim
            ],
        )
        for value in (*model.graph.input, *model.graph.output)
    ]
    assert described == [
        ("input_ids", "INT64", ["batch", "sequence"]),
        ("segment_ids", "INT64", ["batch", "sequence"]),
        ("padding_mask", "INT64", ["batch", "sequence"]),
        ("scores", "FLOAT", ["batch", 3]),
    ]


def test_the_files_and_what_the_manifest_says(directory: Path, classifier: Any) -> None:
    assert {path.name for path in directory.iterdir()} == {
        *("model.onnx", "tokenizer.json", "labels.json", "manifest.json"),
        "model_card.md",
    }
    assert json.loads((directory / "labels.json").read_text()) == list(LABELS)
    manifest = read_manifest(directory)
    assert manifest["kind"] == "onnx"
    assert manifest["model"]["mask_convolution"] is True
    assert manifest["task"]["sequence_length"] == SEQUENCE_LENGTH
    assert manifest["longest_input"] == MAX_SEQUENCE_LENGTH
    tokenizer = classifier.preprocessor.tokenizer
    assert manifest["model"]["vocabulary_sha256"] == tokenizer.vocabulary_sha256
    assert manifest["versions"]["tf2onnx"] == "1.17.0"
    result = Artefacts.result(directory)
    measured = manifest["measured"]
    assert measured["max_abs_difference"] == result["max_abs_difference"] > 0
    assert set(measured["cases"]) == {
        *("tokens 1x1", "tokens 1x7", "tokens 3x33", "tokens 5x64", "every id")
    }
    assert result["inputs"] == manifest["inputs"]
    assert result["bytes"] == (directory / "model.onnx").stat().st_size


def test_official_convolution_is_padded_inside_the_graph(artefacts: Artefacts) -> None:
    # X15: callers may pad as they like, or not at all.
    directory = artefacts.onnx("official")
    assert read_manifest(directory)["longest_input"] == SEQUENCE_LENGTH
    session = onnxruntime.InferenceSession(str(directory / "model.onnx"))
    ids = np.array([[2, 5, 7, 3]])
    scores = []
    for width in (4, 9, SEQUENCE_LENGTH):
        mask = np.arange(width)[None] < 4
        padded = np.full((1, width), 8)
        padded[:, :4] = ids
        batch = {
            "input_ids": padded,
            "segment_ids": np.zeros((1, width), "int64"),
            "padding_mask": mask.astype("int64"),
        }
        scores.append(session.run(["scores"], batch)[0])
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, atol=1e-6)


@pytest.mark.parametrize("opset", [12, 24])
def test_opsets_that_cannot_be_written(
    artefacts: Artefacts, tmp_path: Path, opset: int
) -> None:
    result = run(
        *("onnx", "--model", artefacts.model(), "--output", tmp_path / "out"),
        *("--opset", str(opset)),
    )
    assert result.status == 2
    assert f"Received: {opset}" in result.errors
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_refused(
    artefacts: Artefacts, directory: Path
) -> None:
    result = run("onnx", "--model", artefacts.model(), "--output", directory)
    assert result.status == 2
    assert "exists" in result.errors


def test_raw_text_is_refused_with_a_reason(
    artefacts: Artefacts, tmp_path: Path
) -> None:
    # O08
    result = run(
        *("onnx", "--model", artefacts.model(), "--output", tmp_path / "out"),
        "--raw-text",
    )
    assert result.status == 2
    assert "onnx_runtime.py" in result.errors


def test_a_difference_from_keras_leaves_nothing_behind(
    artefacts: Artefacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # O07: the graph takes padding for tokens.
    emit = onnx_encoder.emit_encoder
    monkeypatch.setattr(
        onnx_encoder,
        "emit_encoder",
        lambda builder, backbone, ids, segments, mask: emit(
            builder,
            backbone,
            ids,
            segments,
            builder.op("Max", mask, builder.integers(1)),
        ),
    )
    result = run("onnx", "--model", artefacts.model(), "--output", tmp_path / "out")
    assert result.status == 1
    assert "scores differ from Keras by up to" in result.errors
    assert "tolerance " in result.errors
    # Only rows with padding show it.
    assert "tokens 3x33" in result.errors or "tokens 5x64" in result.errors
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_that_disagrees_is_refused(
    artefacts: Artefacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lvbert_tf

    faithful = lvbert_tf.LVBertTokenizer.to_tokenizers_json
    monkeypatch.setattr(
        lvbert_tf.LVBertTokenizer,
        "to_tokenizers_json",
        lambda self: faithful(self).replace('"Lowercase"', '"NFC"'),
    )
    monkeypatch.setattr(
        onnx_graph, "convert", lambda *_: onnx.load(artefacts.onnx() / "model.onnx")
    )
    result = run("onnx", "--model", artefacts.model(), "--output", tmp_path / "out")
    assert result.status == 1
    assert "tokenizer.json gives other ids than Keras for" in result.errors
    assert list(tmp_path.iterdir()) == []


def test_an_altered_file_is_found(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    content = bytearray((copy / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "model.onnx").write_bytes(content)
    with pytest.raises(ManifestError, match=r"model\.onnx was altered"):
        read_manifest(copy)
    (copy / "model.onnx").unlink()
    with pytest.raises(ManifestError, match=r"model\.onnx is missing"):
        read_manifest(copy)
