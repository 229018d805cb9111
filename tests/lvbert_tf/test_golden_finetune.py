"""Classification and regression heads against the official code."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf.conversion import load_official_checkpoint
from tests.paths import golden

pytestmark = pytest.mark.golden


@pytest.mark.parametrize("task", ["cola", "mnli", "sts"])
def test_predictions_of_a_fine_tuned_checkpoint(task: str) -> None:
    folder = golden(f"finetune/{task}")
    config = json.loads((folder / "config.json").read_text())
    heads = config["hparams"]["model_hparam_overrides"]["num_attention_heads"]
    model = load_official_checkpoint(
        folder / "model.ckpt", kind="classifier", num_heads=heads
    )
    vectors = np.load(folder / "io.npz")
    outputs = np.asarray(
        model(
            {
                "token_ids": vectors["feature::input_ids"],
                "segment_ids": vectors["feature::segment_ids"],
                "padding_mask": vectors["feature::input_mask"],
            }
        )
    )
    if task == "sts":
        expected = vectors["predict::predictions"]
        assert model.regression
        assert np.abs(outputs[:, 0] - expected).max() <= 5e-5
        targets = vectors["feature::sts_targets"]
        losses = (outputs[:, 0] - targets) ** 2
    else:
        assert np.abs(outputs - vectors["predict::logits"]).max() <= 5e-5
        targets = vectors[f"feature::{task}_label_ids"]
        losses = keras.losses.sparse_categorical_crossentropy(targets, outputs, True)
    official = vectors["predict::loss"]
    assert np.abs(np.asarray(losses) - official).max() <= 5e-5
    # The loss that `fit` uses is the mean of these.
    loss = model.compute_loss(y=targets, y_pred=tf.constant(outputs))
    assert float(loss) == pytest.approx(float(official.mean()), abs=5e-5)
    assert [v.path.split("/")[-1] for v in model.output_dense.weights] == [
        "kernel",
        "bias",
    ]
