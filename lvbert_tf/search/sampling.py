"""Which letter each position of the supernet takes at a training step.

A route is a pure function of (seed, step): nothing is drawn from a state, so that every
replica and every worker takes the same path, and a resumed run takes the path that the
uninterrupted one would have taken. The numbers come from SplitMix64's finaliser applied
to the coordinates [1]; it needs only 64-bit additions, multiplications, shifts and
exclusive ors, which NumPy and TensorFlow compute alike.

References:
    [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
        generators", OOPSLA 2014.
"""

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import tensorflow as tf

SamplingMethod = Literal["uniform", "fair"]
"""`uniform` draws each letter independently; `fair` walks through permutations."""

SAMPLING_METHODS: tuple[str, ...] = get_args(SamplingMethod)

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd
_MULTIPLIER_1 = 0xBF58476D1CE4E5B9
_MULTIPLIER_2 = 0x94D049BB133111EB
_MASK_64 = (1 << 64) - 1


def route(
    seed: int,
    step: int,
    num_layers: int,
    num_letters: int,
    method: str = "uniform",
) -> NDArray[np.int32]:
    """Returns the route of one training step, on the host.

    With `method="uniform"` every position draws one of the letters independently of
    the others and of other steps, each with probability 1 / `num_letters` (the paper's
    section 3.2; the bias of the integer draw is below `num_letters` / 2**32). With
    `method="fair"` every position runs through a fresh random permutation of the
    letters in each block of `num_letters` consecutive steps (steps 0 to
    `num_letters` - 1, and so on), so that each layer of the supernet is trained exactly
    once per block.

    Args:
        seed: any integer; taken modulo 2**64.
        step: the global step, 0 or more.
        num_layers: positions of the supernet, L, at least 1.
        num_letters: layer types per position, at least 1.
        method: `"uniform"` or `"fair"`.

    Returns:
        int32 (L,): per position an index into the supernet's letters.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> route(seed=7, step=0, num_layers=8, num_letters=3).tolist()
        [1, 1, 2, 0, 1, 2, 1, 0]
    """
    _check(num_layers, num_letters, method)
    if step < 0:
        raise ValueError(f"`step` must be 0 or more. Received: step={step}")
    positions = np.arange(num_layers, dtype=np.uint64)
    seed_key = _mix(np.array([int(seed) & _MASK_64], np.uint64), _salt(method))
    if method == "uniform":
        bits = _mix(_mix(seed_key, np.uint64(step)), positions)  # (L,)
        return (
            (bits >> np.uint64(32)) * np.uint64(num_letters) >> np.uint64(32)
        ).astype(np.int32)
    block, index = divmod(step, num_letters)
    position_keys = _mix(_mix(seed_key, np.uint64(block)), positions)[:, np.newaxis]
    keys = _mix(position_keys, np.arange(num_letters, dtype=np.uint64))
    # (L, letters); a stable sort, so that even equal keys give a permutation
    return np.argsort(keys, axis=1, kind="stable")[:, index].astype(np.int32)


def route_tensor(
    seed: "int | tf.Tensor",
    step: "int | tf.Tensor",
    num_layers: int,
    num_letters: int,
    method: str = "uniform",
) -> "tf.Tensor":
    """Returns the same route as `route`, computed by TensorFlow operations.

    It works eagerly, in a `tf.function` and in a `tf.data` map, with `step` (and
    `seed`) known only when the graph runs.

    Args:
        seed: integer, or an int64 scalar tensor.
        step: the global step as an integer or int64 scalar tensor, 0 or more; a
            tensor's value is not checked.
        num_layers: positions of the supernet, L, at least 1.
        num_letters: layer types per position, at least 1.
        method: `"uniform"` or `"fair"`.

    Returns:
        int32 (L,): per position an index into the supernet's letters.

    Raises:
        ValueError: if an argument is out of its range.
    """
    import tensorflow as tf

    _check(num_layers, num_letters, method)
    if isinstance(step, int) and step < 0:
        raise ValueError(f"`step` must be 0 or more. Received: step={step}")

    def unsigned(value: Any) -> Any:
        if isinstance(value, int):
            return tf.constant(value & _MASK_64, tf.uint64)
        return tf.bitcast(tf.cast(value, tf.int64), tf.uint64)

    def mix(key: Any, coordinate: Any) -> Any:
        shift = tf.bitwise.right_shift
        xor = tf.bitwise.bitwise_xor
        bits = key + (coordinate + unsigned(1)) * unsigned(_GOLDEN_GAMMA)
        bits = xor(bits, shift(bits, unsigned(30))) * unsigned(_MULTIPLIER_1)
        bits = xor(bits, shift(bits, unsigned(27))) * unsigned(_MULTIPLIER_2)
        return xor(bits, shift(bits, unsigned(31)))

    with tf.name_scope("route"):
        positions = tf.constant(np.arange(num_layers, dtype=np.uint64))
        seed_key = mix(unsigned(seed)[tf.newaxis], unsigned(int(_salt(method))))
        if method == "uniform":
            bits = mix(mix(seed_key, unsigned(step)), positions)
            high = tf.bitwise.right_shift(bits, unsigned(32))
            scaled = high * unsigned(num_letters)
            return tf.cast(tf.bitwise.right_shift(scaled, unsigned(32)), tf.int32)
        step_64 = tf.cast(step, tf.int64)
        block, index = step_64 // num_letters, step_64 % num_letters
        position_keys = mix(mix(seed_key, unsigned(block)), positions)[:, tf.newaxis]
        keys = mix(position_keys, tf.constant(np.arange(num_letters, dtype=np.uint64)))
        # The rank of each letter by comparison: a sort of unsigned 64-bit keys is not
        # to be had everywhere, and there are only a few letters.
        first, second = keys[:, :, tf.newaxis], keys[:, tf.newaxis, :]
        earlier = tf.constant(np.tri(num_letters, k=-1, dtype=bool))
        before = (second < first) | ((second == first) & earlier)  # (L, n, n)
        rank = tf.reduce_sum(tf.cast(before, tf.int64), axis=2)  # (L, n)
        return tf.argmax(tf.cast(rank == index, tf.int32), axis=1, output_type=tf.int32)


def _check(num_layers: int, num_letters: int, method: str) -> None:
    if method not in SAMPLING_METHODS:
        raise ValueError(
            f"`method` must be one of {', '.join(SAMPLING_METHODS)}. "
            f"Received: method={method!r}"
        )
    if num_layers < 1:
        raise ValueError(
            f"`num_layers` must be at least 1. Received: num_layers={num_layers}"
        )
    if num_letters < 1:
        raise ValueError(
            f"`num_letters` must be at least 1. Received: num_letters={num_letters}"
        )


def _salt(method: str) -> np.uint64:
    """Returns a coordinate of each method's own, so that their draws are unrelated."""
    return np.uint64(SAMPLING_METHODS.index(method))


def _mix(
    key: NDArray[np.uint64], coordinate: NDArray[np.uint64] | np.uint64
) -> NDArray[np.uint64]:
    """Returns 64 bits that depend on `key` and `coordinate` (shapes broadcast)."""
    # Arrays, never scalars: NumPy warns of overflow for scalars, and wraps for arrays.
    steps = np.atleast_1d(np.asarray(coordinate, np.uint64)) + np.uint64(1)
    bits = key + steps * np.uint64(_GOLDEN_GAMMA)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_MULTIPLIER_1)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_MULTIPLIER_2)
    result: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return result
