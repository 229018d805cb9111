"""The endless, shuffled stream of records, from any place in it."""

import numpy as np
import tensorflow as tf

from training.data.record_source import NumberedShard


def shuffled_records(
    shards: tuple[NumberedShard, ...], seed: int, position: int
) -> tf.data.Dataset:
    """Endless serialised records from a position of the stream of all epochs."""
    shards = tuple(shard for shard in shards if shard.examples)
    total = sum(shard.examples for shard in shards)
    number = len(shards)
    paths = tf.constant([shard.path for shard in shards])
    sizes = tf.constant([shard.examples for shard in shards], tf.int64)
    epoch, offset = divmod(position, total)

    def permuted(index: tf.Tensor, key: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        # A keyed permutation of [0, count), computed entry by entry.
        keys = tf.stack([tf.constant(seed, tf.int64), key])
        return tf.random.experimental.index_shuffle(index, keys, count - 1)

    def shard_at(turn: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which shard the turn-th is, and the key of its order."""
        round_, place = turn // number, turn % number
        # Keys of the epoch's order of shards, then of the order within each.
        first_key = round_ * (number + 1)
        shard = permuted(place, first_key, tf.constant(number, tf.int64))
        return shard, first_key + 1 + shard

    def read(turn: tf.Tensor) -> tf.data.Dataset:
        shard, key = shard_at(turn)
        size = sizes[shard]
        order = permuted(tf.range(size), key, size)
        return (
            tf.data.TFRecordDataset(paths[shard])
            .batch(size)
            .flat_map(
                lambda records: tf.data.Dataset.from_tensor_slices(
                    tf.gather(records, order)
                )
            )
        )

    # Whole shards that lie before the position are not read.
    turn = epoch * number
    while True:
        size = shards[int(shard_at(tf.constant(turn, tf.int64))[0])].examples
        if offset < size:
            break
        offset -= size
        turn += 1
    return (
        tf.data.Dataset.range(turn, np.iinfo(np.int64).max).flat_map(read).skip(offset)
    )
