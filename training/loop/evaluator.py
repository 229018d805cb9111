"""Sums a model's figures over the held-out batches, under the strategy."""

from typing import Any

import numpy as np
import orbit
import tensorflow as tf

from common.command_line import CommandError
from training.loop.plan import Figures, Plan
from training.run.devices import Distribution
from training.run.signals import StopSignals


class Evaluator(orbit.StandardEvaluator):
    """Orbit's evaluation: sums over the held-out batches, then figures."""

    def __init__(
        self, plan: Plan, distribution: Distribution, signals: StopSignals
    ) -> None:
        super().__init__(distribution.distribute(plan.validation_batches()))
        self._plan = plan
        self._strategy = distribution.strategy
        self._signals = signals

    def figures(self) -> Figures:
        """Evaluates on the whole held-out set.

        Returns:
            Name to a float, to a dictionary or list of them, or to None where a figure
            is undefined.
        """
        figures: Figures = self.evaluate(tf.constant(-1))
        return {
            name: value
            if value is None or isinstance(value, (dict, list))
            else float(value)
            for name, value in figures.items()
        }

    def eval_begin(self) -> Figures:
        """Returns the empty sums."""
        return {}

    @tf.autograph.experimental.do_not_convert
    def eval_step(self, iterator: Any) -> dict[str, tf.Tensor]:
        """Returns the sums of one batch over all replicas."""
        sums = self._strategy.run(self._plan.model.test_step, args=(next(iterator),))
        return {
            name: self._strategy.experimental_local_results(value)[0]
            for name, value in sums.items()
        }

    def eval_reduce(self, state: Figures, step_outputs: Figures) -> Figures:
        """Adds in double precision, on the host."""
        self._signals.check()
        for name, value in step_outputs.items():
            state[name] = state.get(name, 0.0) + value.numpy().astype(np.float64)
        return state

    def eval_end(self, state: Figures) -> Figures:
        """Returns the figures of the whole held-out set."""
        if not state:
            raise CommandError(
                "the held-out set is empty: expected at least one example; "
                "`prepare` with a larger --held-out or more text"
            )
        return self._plan.summarize(state)
