"""Models in half precision: finite, and they learn."""

from typing import Any

import keras
import numpy as np
import pytest

from lvbert_tf import LVBertBackbone, LVBertSpanPredictor, LVBertTextClassifier
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
    [
        ("mixed_float16", True),
        ("mixed_bfloat16", True),
        pytest.param("mixed_float16", False, marks=pytest.mark.slow),
    ],
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
    # Few long epochs: each begins with a set-up of its own.
    many = {name: np.tile(value, (5, 1)) for name, value in x.items()}
    history = classifier.fit(many, np.tile(y, 5), batch_size=16, epochs=6, verbose=0)
    losses = history.history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.1 * losses[0]
    after = [np.asarray(v) for v in classifier.trainable_variables]
    assert all(v.dtype == np.float32 and np.isfinite(v).all() for v in after)
    # Keys' biases never have a gradient; of the tables only some rows have one.
    moved = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert sum(moved) >= len(moved) - 1
    assert (classifier.predict(x, verbose=0).argmax(-1) == y).all()


@pytest.mark.parametrize("dtype", ["float64", "mixed_float16", "mixed_bfloat16"])
def test_spans_are_scored_in_at_least_float32(dtype: str) -> None:
    keras.utils.set_random_seed(0)
    backbone = LVBertBackbone(40, "csf", 8, 16, 32, 2, dtype=dtype)
    predictor = LVBertSpanPredictor(backbone, beam_size=3, intermediate_dim=8)
    x, _ = _data()
    x["padding_mask"][0] = 0
    x["segment_ids"] = x["padding_mask"] * (np.arange(12) > 4)
    expected = "float64" if dtype == "float64" else "float32"
    starts = np.full(32, 6, "int32")
    for inputs in (x, {**x, "start_positions": starts}):
        for name, value in predictor(inputs).items():
            found = np.asarray(value)
            assert np.isfinite(found).all(), name
            assert found.dtype.name == ("int32" if name == "start_index" else expected)
