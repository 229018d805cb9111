"""What stands in the padding moves nothing that belongs to a real token."""

import random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertBackbone

LENGTHS = (13, 5, 0)
"""Real tokens of each row; the last one is nothing but padding."""


def _architectures(count: int) -> list[str]:
    draw = random.Random(7)
    return ["".join(draw.choices("csf", k=draw.randint(2, 6))) for _ in range(count)]


def _inputs(width: int, filler: int) -> dict[str, Any]:
    """The same real tokens in every call; `filler` decides what pads them."""
    real = np.random.default_rng(0).integers(5, 40, (len(LENGTHS), 16))
    padding_mask = np.arange(width) < np.array(LENGTHS)[:, None]
    noise = np.random.default_rng(filler).integers(0, 40, (2, len(LENGTHS), width))
    ids = noise[0]
    ids[:, :13] = np.where(padding_mask[:, :13], real[:, :13], ids[:, :13])
    segments = np.where(padding_mask, real[:, :1] % 2, noise[1] % 2)
    return {
        "token_ids": tf.constant(ids, tf.int32),
        "segment_ids": tf.constant(segments, tf.int32),
        "padding_mask": tf.constant(padding_mask, tf.int32),
    }


def _outputs_and_gradients(backbone: Any, inputs: dict[str, Any]) -> list[Any]:
    mask = tf.cast(inputs["padding_mask"][:, :13, None], tf.float32)
    with tf.GradientTape() as tape:
        hidden = backbone(inputs)
        real = hidden[:, :13] * mask
        count = tf.reduce_sum(mask) * 16.0
        loss = tf.reduce_sum(tf.sin(real * tf.range(1.0, 17.0))) / count
    assert np.isfinite(hidden).all()
    variables = [v.value for v in backbone.trainable_variables]
    gradients = tape.gradient(loss, variables)
    return [real, *map(tf.convert_to_tensor, gradients)]


@pytest.mark.parametrize("architecture", _architectures(4))
def test_outputs_and_gradients_of_real_tokens(architecture: str) -> None:
    keras.utils.set_random_seed(1)
    backbone = LVBertBackbone(40, architecture, 8, 16, 32, 2, max_sequence_length=512)
    expected = _outputs_and_gradients(backbone, _inputs(13, filler=0))
    for width, filler in ((16, 1), (64, 2), (64, 3), (128, 4), (512, 5)):
        found = _outputs_and_gradients(backbone, _inputs(width, filler))
        for ours, theirs in zip(found, expected, strict=True):
            # Position rows beyond the real tokens have no gradient in either.
            assert np.abs(np.asarray(ours) - np.asarray(theirs)).max() <= 1e-5, width


def test_batch_mates_do_not_matter() -> None:
    keras.utils.set_random_seed(1)
    backbone = LVBertBackbone(40, "csfc", 8, 16, 32, 2)
    together = backbone(_inputs(64, filler=1))
    alone = backbone({k: v[1:2, :16] for k, v in _inputs(64, filler=2).items()})
    assert np.abs(np.asarray(together)[1, :5] - np.asarray(alone)[0, :5]).max() <= 1e-5


def test_the_official_convolution_does_see_it() -> None:
    """The check above can fail: it does with `mask_convolution=False`."""
    keras.utils.set_random_seed(1)
    backbone = LVBertBackbone(40, "cc", 8, 16, 32, 2, mask_convolution=False)
    results = [_outputs_and_gradients(backbone, _inputs(64, f))[0] for f in (1, 2)]
    assert np.abs(np.asarray(results[0]) - np.asarray(results[1])).max() > 1e-3
