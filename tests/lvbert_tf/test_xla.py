"""Training steps compiled by XLA, as a TPU needs: fixed shapes, no operation missing.

XLA draws from another generator than TensorFlow, so that nothing is dropped here.
"""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf
from lvbert_tf import distribution
from lvbert_tf.models.routing import encoder as routed_encoder
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import TINY_SIZES, VOCABULARY_SIZE, pretraining_batch

SIZES = {**TINY_SIZES, "dropout": 0.0, "attention_dropout": 0.0}


def _model(kind: str) -> Any:
    keras.utils.set_random_seed(1)
    if kind == "supernet":
        model: Any = lvbert_tf.LVBertSupernet(
            VOCABULARY_SIZE, letters="cf", num_layers=2, **SIZES
        )
    else:
        backbone = lvbert_tf.LVBertBackbone(VOCABULARY_SIZE, "sf", **SIZES)
        model = (
            lvbert_tf.LVBertElectra(backbone, 0.5)
            if kind == "electra"
            else lvbert_tf.LVBertMaskedLM(backbone)
        )
    # Adam divides a gradient by its size, rounding noise included.
    model.compile(optimizer=AdamW(1e-2, epsilon=1.0))
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize(
    "kind", [pytest.param("supernet", marks=pytest.mark.slow), "mlm", "electra"]
)
def test_a_compiled_step_computes_the_same(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = _model(kind)
    monkeypatch.setattr(distribution, "compiles_with_xla", lambda: True)
    monkeypatch.setattr(routed_encoder, "compiles_with_xla", lambda: True)
    compiled = _model(kind)
    steps = [
        tf.function(model.train_step, autograph=False, jit_compile=model is compiled)
        for model in (plain, compiled)
    ]
    # The first draw of ELECTRA's samples makes all that follows differ.
    same = ["generator_loss", "mlm_accuracy", "masked_tokens"]
    for i in range(1 if kind == "electra" else 3):
        batch = pretraining_batch(i, route=[i % 2, 1 - i % 2], step=i)
        expected, found = (step(batch) for step in steps)
        for name in same if kind == "electra" else expected:
            value = float(expected[name])
            assert float(found[name]) == pytest.approx(value, rel=1e-5), name
        assert all(np.isfinite(value).all() for value in found.values())
    for ours, theirs in zip(compiled.weights, plain.weights, strict=True):
        if kind != "electra":
            difference = np.abs(ours.numpy() - theirs.numpy()).max()
            assert difference < 5e-6, ours.path
    assert steps[1].experimental_get_tracing_count() == 1
