"""The order of records: every permutation is as likely as any other."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from training.data.record_order import random_order, shuffled_records
from training.data.record_source import NumberedShard

EPOCHS = 2400


@tf.function
def _orders(seed: tf.Tensor, count: int) -> tf.Tensor:
    # One graph for all keys: thousands of eager calls take a minute.
    return tf.map_fn(
        lambda key: random_order(17, key, tf.constant(count, tf.int64)), seed
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_permutations_are_equally_likely(count: int) -> None:
    """Chi-square over all permutations; keys are those of the epochs of 4 shards."""
    orders = _orders(tf.range(EPOCHS, dtype=tf.int64) * (count + 1), count).numpy()
    found = Counter(map(tuple, orders.tolist()))
    every = list(itertools.permutations(range(count)))
    assert set(found) <= set(every)
    if count > 1:
        assert stats.chisquare([found[one] for one in every]).pvalue > 1e-4


def test_places_are_even_in_a_long_order() -> None:
    count = 1000
    orders = _orders(tf.range(400, dtype=tf.int64), count).numpy()
    assert (np.sort(orders, axis=1) == np.arange(count)).all()
    # Where the entries of each hundred come to stand, and what follows what
    places = np.argsort(orders, axis=1).reshape(400, 10, 100) // 100
    for hundred in range(10):
        counts = np.bincount(places[:, hundred].ravel(), minlength=10)
        assert stats.chisquare(counts).pvalue > 1e-4
    steps = np.diff(orders, axis=1) % count // 100
    assert stats.chisquare(np.bincount(steps.ravel(), minlength=10)).pvalue > 1e-4


def _shards(folder: Path, sizes: list[int]) -> tuple[NumberedShard, ...]:
    shards = []
    for shard, size in enumerate(sizes):
        path = str(folder / f"{shard}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for record in range(size):
                writer.write(f"{shard}/{record}".encode())
        shards.append(NumberedShard(path, size))
    return tuple(shards)


@pytest.mark.parametrize("sizes", [[1], [5], [4, 1, 0, 7]])
def test_every_position_goes_on_as_the_whole_stream(
    tmp_path: Path, sizes: list[int]
) -> None:
    shards = _shards(tmp_path, sizes)
    total = sum(sizes)
    whole = list(shuffled_records(shards, 3, 0).take(3 * total).as_numpy_iterator())
    for epoch in range(3):
        assert len(set(whole[epoch * total : (epoch + 1) * total])) == total
    for position in range(2 * total):
        rest = shuffled_records(shards, 3, position).take(total).as_numpy_iterator()
        assert list(rest) == whole[position : position + total]
