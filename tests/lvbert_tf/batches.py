"""Small pretraining batches for the tests."""

from typing import Any

import numpy as np
import tensorflow as tf

TINY_SIZES: dict[str, Any] = {
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "num_heads": 2,
    "max_sequence_length": 32,
}
VOCABULARY_SIZE = 101


def pretraining_batch(
    seed: int = 0,
    rows: int = 4,
    tokens: int = 16,
    slots: int = 4,
    route: list[int] | None = None,
    step: int = 0,
) -> dict[str, Any]:
    """Returns a batch with padding and with very unequal numbers of masked tokens."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(tokens // 2, tokens + 1, rows)
    mask = (np.arange(tokens) < lengths[:, None]).astype("int32")
    used = np.arange(slots) < draw.integers(1, slots + 1, rows)[:, None]
    used[0] = [True] + [False] * (slots - 1)
    positions = np.stack([draw.permutation(tokens // 2 - 1)[:slots] + 1] * rows)
    batch = {
        "token_ids": draw.integers(5, VOCABULARY_SIZE, (rows, tokens)) * mask,
        "segment_ids": draw.integers(0, 2, (rows, tokens)) * mask,
        "padding_mask": mask,
        "mask_positions": positions * used,
        "mask_ids": draw.integers(5, VOCABULARY_SIZE, (rows, slots)) * used,
    }
    result = {name: tf.constant(value, tf.int32) for name, value in batch.items()}
    result["mask_weights"] = tf.constant(used, tf.float32)
    result["step"] = tf.fill((rows,), tf.constant(step, tf.int64))
    if route is not None:
        result["route"] = tf.constant([route] * rows, tf.int32)
    return result
