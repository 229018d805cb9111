"""Takes training steps under the strategy, and watches and logs them."""

import math
import time
from typing import Any

import orbit
import tensorflow as tf

from command_line import CommandError
from training.loop.checkpoints import LoopState
from training.loop.plan import Figures, Plan
from training.run.devices import Distribution
from training.run.directory import RunDirectory
from training.run.options import Run
from training.run.progress import Progress
from training.run.signals import StopSignals


class Trainer(orbit.AbstractTrainer):
    """Orbit's inner loop: some steps, then their means."""

    def __init__(
        self,
        plan: Plan,
        run: Run,
        directory: RunDirectory,
        distribution: Distribution,
        step: tf.Variable,
        state: LoopState,
        signals: StopSignals,
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._run = run
        self._directory = directory
        self._distribution = distribution
        self._step = step
        self._state = state
        self._signals = signals
        self._progress = progress
        self._function = tf.function(self._take_step, autograph=False)
        self._iterator: Any = None
        self._timed_steps = 0
        self._timed_seconds = 0.0

    @property
    def traces(self) -> int:
        """How often the step was traced."""
        count: int = self._function.experimental_get_tracing_count()
        return count

    def train(self, num_steps: tf.Tensor) -> Figures:
        """Takes steps; at a multiple of `log_every` returns the means since the last.

        Args:
            num_steps: int32 scalar.
        """
        step = int(self._step.numpy())
        if self._iterator is None:
            batches = self._plan.training_batches(step)
            self._iterator = iter(self._distribution.distribute(batches))
        for _ in range(int(num_steps)):
            self._signals.check()
            started = time.perf_counter()
            figures = self._host(self._function(self._iterator))
            step += 1
            self._count_time(time.perf_counter() - started)
            self._check_finite(step, figures)
            self._state.add(figures)
            self._state.running.add(self._plan.parts(step - 1), figures["loss"])
            self._progress.set(
                **{n: figures[n] for n in ("loss", "accuracy") if n in figures}
            )
            self._progress.update(1)
        if step % self._run.log_every and step != self._run.steps:
            return {}
        means = {
            **self._plan.train_figures(self._state.take_means()),
            **self._state.running.figures(),
        }
        self._directory.append_metrics(step, "train", means)
        # What is undefined has no place in a curve.
        numbers = {n: value for n, value in means.items() if isinstance(value, float)}
        return {**numbers, **self._take_timing(step)}

    def _take_step(self, iterator: Any) -> dict[str, tf.Tensor]:
        strategy = self._distribution.strategy
        figures = strategy.run(self._plan.model.train_step, args=(next(iterator),))
        self._step.assign_add(1)
        # Every replica returns the figures of the global batch.
        return {
            name: strategy.experimental_local_results(value)[0]
            for name, value in figures.items()
        }

    @staticmethod
    def _host(figures: dict[str, tf.Tensor]) -> dict[str, float]:
        return {name: float(value) for name, value in sorted(figures.items())}

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

    def _count_time(self, seconds: float) -> None:
        if self._timed_steps == 0 and self._timed_seconds == 0.0:
            self._progress.note(
                f"{self._plan.label}: first step after {seconds:.1f} s "
                "(building the graph)"
            )
            self._timed_seconds = math.ulp(0.0)  # the first step is not a rate
            return
        self._timed_steps += 1
        self._timed_seconds += seconds

    def _take_timing(self, step: int) -> Figures:
        steps, seconds = self._timed_steps, self._timed_seconds
        self._timed_steps, self._timed_seconds = 0, math.ulp(0.0)
        if steps == 0:
            return {}
        rate = steps * self._run.batch_size / seconds
        self._directory.append_timing(
            step, {"steps": steps, "seconds": seconds, "examples_per_second": rate}
        )
        return {"examples_per_second": rate}
