"""What a training step needs of `tf.distribute`, in one place.

Everything here works with one device and inside `tf.distribute.Strategy.run`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def num_replicas() -> int:
    """Returns how many replicas take this step together."""
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def compiles_with_xla() -> bool:
    """Returns whether the strategy in scope has XLA compile what its replicas do."""
    return isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def replica_id() -> Any:
    """Returns the index of this replica: an int32 scalar tensor, or 0."""
    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def static_replica_id() -> int:
    """Returns the index of this replica as a Python number, while tracing too."""
    value = replica_id()
    return int(value if isinstance(value, int) else tf.get_static_value(value))


def sum_over_replicas(tensors: Sequence[Any]) -> list[Any]:
    """Returns the sums over all replicas of float32 tensors of any shapes.

    They travel as one flat vector: one collective a call, and no static shapes needed.
    Every replica must give tensors of the same shapes.
    """
    if num_replicas() == 1:
        return list(tensors)
    context = tf.distribute.get_replica_context()
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
    parts = tf.split(total, [tf.size(tensor) for tensor in tensors], axis=0)
    return [
        tf.reshape(part, tf.shape(tensor))
        for part, tensor in zip(parts, tensors, strict=True)
    ]


def local_variable(variable: Any) -> tf.Variable:
    """Returns this replica's own copy of a Keras or TensorFlow variable.

    Replicas that apply the same update to their own copies stay equal, which needs no
    merging of replicas and works inside `tf.switch_case`.
    """
    variable = getattr(variable, "value", variable)
    if compiles_with_xla():
        return variable  # one program serves all replicas, and stands for each one's
    copies = tf.distribute.get_strategy().experimental_local_results(variable)
    if len(copies) == 1:
        return copies[0]
    return copies[static_replica_id() % len(copies)]
