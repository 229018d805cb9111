"""Models in half precision: finite, and they learn."""

from typing import Any

import keras
import numpy as np
import pytest

from lvbert_tf import LVBertBackbone, LVBertTextClassifier
from lvbert_tf.optimization import AdamW


def _data() -> tuple[dict[str, Any], Any]:
    draw = np.random.default_rng(0)
    ids = draw.integers(5, 40, (32, 12))
    labels = (draw.random(32) < 0.5).astype("int32")
    ids[:, 3] = np.where(labels == 1, 38, 39)
    mask = (np.arange(12) < draw.integers(5, 13, (32, 1))).astype("int32")
    return {
        "token_ids": ids.astype("int32"),
        "segment_ids": np.zeros_like(mask),
        "padding_mask": mask,
    }, labels


@pytest.mark.parametrize(
    ("dtype", "own_optimizer"),
    [("mixed_float16", False), ("mixed_float16", True), ("mixed_bfloat16", True)],
)
def test_a_classifier_learns(dtype: str, own_optimizer: bool) -> None:
    keras.utils.set_random_seed(0)
    backbone = LVBertBackbone(
        40, "csf", 16, 32, 64, 2, dropout=0.0, attention_dropout=0.0, dtype=dtype
    )
    classifier = LVBertTextClassifier(backbone, 2, dropout=0.0)
    optimizer = AdamW(3e-3) if own_optimizer else keras.optimizers.Adam(3e-3)
    classifier.compile(optimizer=optimizer)
    scaled = isinstance(classifier.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (dtype == "mixed_float16")
    x, y = _data()
    before = [np.asarray(v) for v in classifier.trainable_variables]
    losses = classifier.fit(x, y, batch_size=16, epochs=25, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.1 * losses[0]
    after = [np.asarray(v) for v in classifier.trainable_variables]
    assert all(v.dtype == np.float32 and np.isfinite(v).all() for v in after)
    # Keys' biases never have a gradient; of the tables only some rows have one.
    moved = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert sum(moved) >= len(moved) - 1
    assert (classifier.predict(x, verbose=0).argmax(-1) == y).all()
