"""Takes training steps under the strategy, watches their figures and their time."""

import math
import time
from typing import Any

import tensorflow as tf

from common.command_line import CommandError
from training.loop.plan import Figures, Plan
from training.run.devices import Distribution
from training.run.directory import RunDirectory


class Steps:
    """The steps of a training, one after the other, each by one traced function.

    Args:
        plan: the model and its batches.
        distribution: the strategy to step under.
        counter: int64 scalar variable, the steps taken; each step adds one.
        directory: of the run; a message names its checkpoints.
    """

    def __init__(
        self,
        plan: Plan,
        distribution: Distribution,
        counter: tf.Variable,
        directory: RunDirectory,
    ) -> None:
        self._plan = plan
        self._distribution = distribution
        self._counter = counter
        self._directory = directory
        self._function = tf.function(self._take, autograph=False)
        self._iterator: Any = None

    @property
    def traces(self) -> int:
        """How often the step was traced."""
        count: int = self._function.experimental_get_tracing_count()
        return count

    def take(self) -> dict[str, float]:
        """Takes one step and returns its figures over the global batch.

        Raises:
            CommandError: if one of them is not finite.
        """
        if self._iterator is None:
            batches = self._plan.training_batches(int(self._counter.numpy()))
            self._iterator = iter(self._distribution.distribute(batches))
        figures = {
            name: float(value)
            for name, value in sorted(self._function(self._iterator).items())
        }
        self._check_finite(int(self._counter.numpy()), figures)
        return figures

    def _take(self, iterator: Any) -> dict[str, tf.Tensor]:
        strategy = self._distribution.strategy
        figures = strategy.run(self._plan.model.train_step, args=(next(iterator),))
        self._counter.assign_add(1)
        # Every replica returns the figures of the global batch.
        return {
            name: strategy.experimental_local_results(value)[0]
            for name, value in figures.items()
        }

    def _check_finite(self, step: int, figures: dict[str, float]) -> None:
        bad = [name for name, value in figures.items() if not math.isfinite(value)]
        if not bad:
            return
        # A part of the loss says more than their sum, and that more than the gradient.
        bad.sort(key=lambda name: (not name.endswith("loss"), name == "loss", name))
        kept = sorted(self._directory.checkpoints.glob("ckpt-*.index"))
        raise CommandError(
            f"step {step}{self._plan.describe_step(step - 1)}: {bad[0]} is "
            f"{figures[bad[0]]}, expected a finite number"
            + (f" ({', '.join(bad[1:])} too)" if bad[1:] else "")
            + "; training stopped, nothing of this step was saved. "
            + (
                f"The checkpoints in {self._directory.checkpoints} are sound. "
                if kept
                else "No checkpoint had been saved yet. "
            )
            + "A lower optimizer.learning_rate or a longer optimizer.warmup_steps helps"
        )


class StepTimer:
    """The rate of a session's steps, the first one, which builds the graph, aside.

    Args:
        batch_size: examples of a step over all devices.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._last = time.perf_counter()
        self._steps = 0
        self._seconds = 0.0
        self.first_step_seconds: float | None = None

    def start(self) -> None:
        """Starts the clock of a step."""
        self._last = time.perf_counter()

    def stop(self) -> bool:
        """Counts the step that `start` began; returns whether it was the first one."""
        seconds = time.perf_counter() - self._last
        if self.first_step_seconds is None:
            self.first_step_seconds = seconds
            return True
        self._steps += 1
        self._seconds += seconds
        return False

    def take(self) -> Figures:
        """Returns `steps`, `seconds`, `examples_per_second` since the last call.

        Nothing is returned where no step was timed.
        """
        steps, seconds = self._steps, self._seconds
        self._steps, self._seconds = 0, 0.0
        if steps == 0:
            return {}
        rate = steps * self._batch_size / seconds
        return {"steps": steps, "seconds": seconds, "examples_per_second": rate}
