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
from dataclasses import dataclass

import orbit
import tensorflow as tf

from command_line import CommandError
from training.loop.checkpoints import Checkpoints, LoopState
from training.loop.evaluator import Evaluator
from training.loop.plan import Figures, Plan
from training.loop.trainer import Trainer
from training.run.devices import Distribution
from training.run.directory import RunDirectory
from training.run.options import Run
from training.run.progress import Progress
from training.run.signals import StopRequested, StopSignals

_WORKER_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
"""What collective operations end with when another process is gone."""


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
        trainer = Trainer(
            plan, run, directory, distribution, step, state, signals, progress
        )
        evaluator = Evaluator(plan, distribution, signals)
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
            name: value
            if value is None or isinstance(value, (dict, list))
            else float(value)
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
    trainer: Trainer,
    evaluator: Evaluator,
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
