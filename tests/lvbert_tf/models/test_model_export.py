"""`model.export` of Keras, with dropout in the model and weights as initialised."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf

INPUTS = {
    "token_ids": np.array([[2, 5, 6, 3], [2, 6, 3, 0]], "int32"),
    "segment_ids": np.zeros((2, 4), "int32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], "int32"),
}


@pytest.fixture(scope="module")
def classifier() -> lvbert_tf.LVBertTextClassifier:
    """One attention layer whose biases are all zero, as a new model's are."""
    keras.utils.set_random_seed(0)
    backbone = lvbert_tf.LVBertBackbone(9, "s", 8, 16, 32, 2, max_sequence_length=16)
    assert not np.any(backbone.encoder.layer_list[0].layer.key.bias)
    return lvbert_tf.LVBertTextClassifier(backbone, 2)


@pytest.mark.export
def test_a_saved_model_gives_the_same(
    classifier: lvbert_tf.LVBertTextClassifier, tmp_path: Path
) -> None:
    classifier.export(tmp_path / "saved", format="tf_saved_model", verbose=False)
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    served = saved.serve({name: tf.constant(value) for name, value in INPUTS.items()})
    np.testing.assert_allclose(served, classifier(INPUTS), atol=1e-6)


@pytest.mark.export
def test_onnx_of_zero_biases_runs(
    classifier: lvbert_tf.LVBertTextClassifier, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    classifier.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(path))
    # One token alone is what it is before padding: Keras remarks on a softmax over it.
    first = {**INPUTS, "padding_mask": INPUTS["padding_mask"] * [1, 0, 0, 0]}
    for width, expected in ((1, classifier(first)), (4, classifier(INPUTS))):
        inputs = {name: value[:, :width] for name, value in INPUTS.items()}
        (served,) = session.run(
            None, {i.name: inputs[i.name.split(":")[0]] for i in session.get_inputs()}
        )
        np.testing.assert_allclose(served, expected, atol=1e-5)


def _task(name: str) -> tuple[Any, dict[str, Any]]:
    keras.utils.set_random_seed(0)
    backbone = lvbert_tf.LVBertBackbone(9, "csf", 8, 16, 32, 2, max_sequence_length=16)
    segments = {"segment_ids": np.array([[0, 0, 1, 1], [0, 1, 1, 0]], "int32")}
    if name == "masked_lm":
        places = {"mask_positions": np.array([[1], [2]], "int32")}
        return lvbert_tf.LVBertMaskedLM(backbone), INPUTS | places
    predictor = lvbert_tf.LVBertSpanPredictor(backbone, beam_size=2, intermediate_dim=8)
    return predictor, INPUTS | segments


@pytest.mark.export
@pytest.mark.parametrize("name", ["masked_lm", "spans"])
def test_a_saved_model_of_the_other_tasks(name: str, tmp_path: Path) -> None:
    model, inputs = _task(name)
    model.save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    expected = model(inputs)
    model.export(tmp_path / "saved", format="tf_saved_model", verbose=False)
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    found = saved.serve({name: tf.constant(value) for name, value in inputs.items()})
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, expected
    )


@pytest.mark.export
@pytest.mark.slow
@pytest.mark.parametrize("name", ["masked_lm", "spans"])
def test_onnx_of_the_other_tasks(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, inputs = _task(name)
    path = tmp_path / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(path))
    given = {i.name: inputs[i.name.split(":")[0]] for i in session.get_inputs()}
    found = session.run(None, given)
    expected = [np.asarray(v) for v in keras.tree.flatten(model(inputs))]
    assert len(found) == len(expected)
    for value in found:
        alike = [e for e in expected if e.shape == value.shape]
        assert min(np.abs(e - value).max() for e in alike) < 1e-5
