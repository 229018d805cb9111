"""`model.export` of Keras, with dropout in the model and weights as initialised."""

from pathlib import Path

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
