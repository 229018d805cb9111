"""The training loop that the supernet and pretraining share, driven by Orbit.

The mathematics of a step is the model's own (`train_step`); here it is repeated under
the strategy, logged, evaluated, checkpointed, and stopped where it must stop. Every
draw of a step is a pure function of the step's number, so a checkpoint holds weights,
optimizer state, the step, and what was summed up since the last line of the log: a
resumed run goes on bit for bit like one that was never interrupted.
"""

import contextlib
import io
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orbit
import tensorflow as tf

from command_line import CommandError
from training.checkpoints import Checkpoints, LoopState
from training.distribution import Distribution
from training.experiment import Run
from training.progress import Progress
from training.run_directory import RunDirectory
from training.signals import StopRequested, StopSignals

Figures = dict[str, Any]
_WORKER_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
"""What collective operations end with when another process is gone."""


@dataclass(frozen=True)
class Plan:
    """What is trained, on what, and what its figures mean.

    Attributes:
        label: a word for the progress bar.
        model: has `train_step(batch)`, `test_step(batch)` and a built `optimizer`.
        training_batches: from the number of the first step, this worker's rows of
            every global batch from that step on, without end.
        validation_batches: this worker's rows of the held-out batches, all of one
            static shape.
        summarize: sums of `test_step` over the held-out batches to figures; one of
            them is `loss`, by which the best checkpoint is chosen.
        describe_step: what a message should say of a step besides its number, for
            example its route; or an empty string.
        parts: what a step makes use of, each with a running mean of the loss of its
            own; see `training.running_losses`.
        write_model: writes the model to a directory, at the end and whenever the
            held-out loss is the best so far.
    """

    label: str
    model: Any
    training_batches: Callable[[int], tf.data.Dataset]
    validation_batches: Callable[[], tf.data.Dataset]
    summarize: Callable[[Figures], Figures]
    describe_step: Callable[[int], str] = field(default=lambda step: "")
    parts: Callable[[int], Sequence[str]] = field(default=lambda step: ())
    write_model: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a finished training can say about itself.

    Attributes:
        steps: steps taken in all.
        train: means of the training figures over the last logged steps.
        validation: figures of the last evaluation.
        best_loss: lowest held-out loss seen.
        examples_per_second: training rate without the first step of each session,
            evaluation and checkpoints; None where too few steps were timed.
        traces: how often the step was traced in this session; 1 is right, 0 means
            that nothing was left to train.
    """

    steps: int
    train: Figures
    validation: Figures
    best_loss: float | None
    examples_per_second: float | None
    traces: int


def train(
    plan: Plan, run: Run, directory: RunDirectory, distribution: Distribution
) -> Outcome:
    """Trains until `run.steps`, from the last checkpoint if there is one.

    Args:
        plan: the model and its data.
        run: length, intervals and what to keep.
        directory: where everything goes; this process's own.
        distribution: the strategy.

    Returns:
        The final figures.

    Raises:
        CommandError: if a figure of a step is not finite; nothing of that step was
            saved.
        StopRequested: on SIGTERM or SIGINT, after a checkpoint was saved.
    """
    with distribution.strategy.scope():
        step = orbit.utils.create_global_step()
    state = LoopState()
    checkpoints = Checkpoints(
        plan.model, run.keep_checkpoints, directory, distribution, step, state
    )
    checkpoints.restore()
    directory.truncate(int(step.numpy()))
    state.read()
    with (
        StopSignals() as signals,
        Progress(run.steps, "steps", plan.label, initial=int(step.numpy())) as progress,
    ):
        trainer = _Trainer(
            plan, run, directory, distribution, step, state, signals, progress
        )
        evaluator = _Evaluator(plan, distribution, signals)
        controller = _controller(trainer, evaluator, step, directory, distribution)
        session = _Session(
            plan, run, directory, checkpoints, controller, step, state, progress
        )
        try:
            session.go_on()
        except StopRequested as request:
            checkpoints.save()
            request.explain(
                f"stopped by {request.signal} at step {int(step.numpy())} of "
                f"{run.steps}; the checkpoint is saved, the same command goes on"
            )
            raise
        except _WORKER_LOST as error:
            if distribution.num_workers == 1:
                raise
            raise CommandError(
                f"step {int(step.numpy()) + 1}: a worker of the "
                f"{distribution.num_workers} stopped answering, and training stopped "
                f"with it ({type(error).__name__}). The checkpoints in "
                f"{directory.checkpoints} are sound: start every worker again, the "
                "same command goes on from the last one"
            ) from error
    if plan.write_model is not None:
        plan.write_model(directory.model)
    return Outcome(
        steps=int(step.numpy()),
        train=directory.last_metrics("train"),
        validation=directory.last_metrics("validation"),
        best_loss=state.best_loss,
        examples_per_second=_rate(directory, run.batch_size),
        traces=trainer.traces,
    )


class _Trainer(orbit.AbstractTrainer):
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
        means = {**self._state.take_means(), **self._state.running.figures()}
        self._directory.append_metrics(step, "train", means)
        return {**means, **self._take_timing(step)}

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


class _Evaluator(orbit.StandardEvaluator):
    """Orbit's evaluation: sums over the held-out batches, then figures."""

    def __init__(
        self, plan: Plan, distribution: Distribution, signals: StopSignals
    ) -> None:
        super().__init__(distribution.distribute(plan.validation_batches()))
        self._plan = plan
        self._strategy = distribution.strategy
        self._signals = signals

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


class _Session:
    """Orbit's outer loop: trains up to the next evaluation, and so on to the end."""

    def __init__(
        self,
        plan: Plan,
        run: Run,
        directory: RunDirectory,
        checkpoints: Checkpoints,
        controller: orbit.Controller,
        step: tf.Variable,
        state: LoopState,
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._run = run
        self._directory = directory
        self._checkpoints = checkpoints
        self._controller = controller
        self._step = step
        self._state = state
        self._progress = progress

    def go_on(self) -> None:
        """Trains, evaluates and saves until the last step."""
        run = self._run
        step = int(self._step.numpy())
        if self._evaluation_due(step) and not self._was_evaluated(step):
            self._evaluate(step)  # a stop came between the step and its evaluation
            self._checkpoints.save()
        while step < run.steps:
            # Orbit counts intervals from where it starts; ours are multiples, so that
            # a resumed run logs and evaluates at the same steps.
            step = min(
                _next_multiple(step, run.checkpoint_every),
                _next_multiple(step, run.log_every),
                _next_multiple(step, run.evaluate_every or run.steps),
                run.steps,
            )
            with contextlib.redirect_stdout(io.StringIO()):  # Orbit prints there
                self._controller.train(step, checkpoint_at_completion=False)
            if self._evaluation_due(step):
                self._evaluate(step)
            if step % run.checkpoint_every == 0 or step == run.steps:
                self._checkpoints.save()

    def _evaluation_due(self, step: int) -> bool:
        every = self._run.evaluate_every
        return step > 0 and (
            step == self._run.steps or (every > 0 and step % every == 0)
        )

    def _was_evaluated(self, step: int) -> bool:
        return any(
            record["step"] == step and record["split"] == "validation"
            for record in self._directory.metrics()
        )

    def _evaluate(self, step: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            figures = self._controller.evaluate(steps=-1)
        figures = {
            name: value if isinstance(value, (dict, list)) else float(value)
            for name, value in figures.items()
        }
        loss = figures["loss"]
        if not math.isfinite(loss):
            raise CommandError(
                f"step {step}: the held-out loss is {loss}, expected a finite number; "
                "nothing of this step was saved"
            )
        self._directory.append_metrics(step, "validation", figures)
        self._progress.note(
            f"{self._plan.label}: step {step} held out: " + _shown(figures)
        )
        if self._state.best_loss is None or loss < self._state.best_loss:
            self._state.best_loss = loss
            self._checkpoints.save_best()
            if self._plan.write_model is not None and step < self._run.steps:
                self._plan.write_model(self._directory.model)


def _controller(
    trainer: _Trainer,
    evaluator: _Evaluator,
    step: tf.Variable,
    directory: RunDirectory,
    distribution: Distribution,
) -> orbit.Controller:
    return orbit.Controller(
        global_step=step,
        trainer=trainer,
        evaluator=evaluator,
        strategy=distribution.strategy,
        steps_per_loop=1_000_000_000,  # _Session asks for whole intervals
        summary_dir=str(directory.tensorboard / "train"),
        eval_summary_dir=str(directory.tensorboard / "validation"),
    )


def _next_multiple(step: int, interval: int) -> int:
    return (step // interval + 1) * interval


def _rate(directory: RunDirectory, batch_size: int) -> float | None:
    lines = directory.timing()
    seconds = sum(line["seconds"] for line in lines)
    steps = sum(line["steps"] for line in lines)
    return steps * batch_size / seconds if steps else None


def _shown(figures: Figures) -> str:
    return ", ".join(
        f"{name} {value:.4g}"
        for name, value in figures.items()
        if isinstance(value, float)
    )
