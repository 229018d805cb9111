"""Sums over the worker processes of what each computed on its own rows."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from training.run.devices import Distribution

Array = NDArray[np.float64]


class WorkerSums:
    """Adds arrays of all workers; with one worker it costs nothing.

    Args:
        distribution: every worker must call the same methods in the same order.
    """

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution
        self._function: Any = None

    def total(self, values: Array) -> Array:
        """Returns the sum over the workers of arrays of one shape."""
        if self._distribution.num_workers == 1:
            return values
        if self._function is None:
            self._function = tf.function(
                self._all_reduce,
                autograph=False,
                input_signature=[tf.TensorSpec((None,), tf.float64)],
            )
        summed: Array = self._function(values.reshape(-1)).numpy()
        return summed.reshape(values.shape)

    def gather(self, rows: Array) -> Array:
        """Returns the rows (last axis) of all workers, in the order of the workers."""
        workers, here = self._distribution.num_workers, self._distribution.worker
        if workers == 1:
            return rows
        width = rows.shape[-1]
        everyone = np.zeros((*rows.shape[:-1], workers * width))
        everyone[..., here * width : (here + 1) * width] = rows
        return self.total(everyone)

    def _all_reduce(self, values: tf.Tensor) -> tf.Tensor:
        strategy = self._distribution.strategy

        def on_replica(mine: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            # The replicas of a worker hold the same values: one of them speaks.
            per_worker = strategy.num_replicas_in_sync // self._distribution.num_workers
            first = context.replica_id_in_sync_group % per_worker == 0
            spoken = tf.where(first, mine, tf.zeros_like(mine))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, spoken)

        summed = strategy.run(on_replica, args=(values,))
        return strategy.experimental_local_results(summed)[0]
