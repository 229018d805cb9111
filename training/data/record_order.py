"""The endless, shuffled stream of records, from any place in it."""

import numpy as np
import tensorflow as tf

from training.data.record_source import NumberedShard

_SALT = 0x6F72646572  # keeps orders apart from the masks of the same seed and step


def random_order(seed: int, key: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns a permutation of [0, count), int64, a function of seed and key.

    It sorts random numbers of 64 bits, which makes every permutation equally likely.
    (`tf.random.experimental.index_shuffle` needs no memory for that, but of few entries
    makes some permutations four times as often as others.)
    """
    keys = tf.random.stateless_uniform(
        [count],
        seed=tf.stack([tf.constant(seed ^ _SALT, tf.int64), key]),
        minval=None,
        maxval=None,
        dtype=tf.int64,
        alg="philox",
    )
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


def shuffled_records(
    shards: tuple[NumberedShard, ...], seed: int, position: int
) -> tf.data.Dataset:
    """Endless serialised records from a position of the stream of all epochs."""
    shards = tuple(shard for shard in shards if shard.examples)
    total = sum(shard.examples for shard in shards)
    count = len(shards)
    paths = tf.constant([shard.path for shard in shards])
    sizes = tf.constant([shard.examples for shard in shards], tf.int64)
    epoch, offset = divmod(position, total)

    def shard_at(turn: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which shard the turn-th is, and the key of its order."""
        round_, place = turn // count, turn % count
        # Keys of the epoch's order of shards, then of the order within each.
        first_key = round_ * (count + 1)
        order = random_order(seed, first_key, tf.constant(count, tf.int64))
        shard = order[place]
        return shard, first_key + 1 + shard

    def read(turn: tf.Tensor) -> tf.data.Dataset:
        shard, key = shard_at(turn)
        size = sizes[shard]
        order = random_order(seed, key, size)
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
    turn = epoch * count
    while True:
        size = shards[int(shard_at(tf.constant(turn, tf.int64))[0])].examples
        if offset < size:
            break
        offset -= size
        turn += 1
    return (
        tf.data.Dataset.range(turn, np.iinfo(np.int64).max).flat_map(read).skip(offset)
    )
