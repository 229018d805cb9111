"""The training loop that the supernet and pretraining share, on one page.

The mathematics of a step is the model's own (`train_step`); `train` repeats it under
the strategy, logs, evaluates, saves, and stops where it must. Every draw of a step is a
pure function of the step's number, so a checkpoint holds weights, optimizer state, the
step, and what was summed up since the last line of the log: a resumed run goes on bit
for bit like one that was never interrupted.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import orbit
import tensorflow as tf

from common.command_line import CommandError
from training.loop.checkpoints import Checkpoints, LoopState
from training.loop.evaluator import Evaluator
from training.loop.log import TrainingLog
from training.loop.plan import Figures, Plan
from training.loop.steps import Steps, StepTimer
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
        counter = orbit.utils.create_global_step()
    state = LoopState()
    checkpoints = Checkpoints(
        plan.model, run.keep_checkpoints, directory, distribution, counter, state
    )
    checkpoints.restore(reset_optimizer=run.reset_optimizer)
    step = int(counter.numpy())
    log = TrainingLog(directory, counter)
    steps = Steps(plan, distribution, counter, directory)
    timer = StepTimer(run.batch_size)

    def due(every: int) -> bool:
        # Multiples, whatever step a session began with: a resumed run logs, evaluates
        # and saves where an uninterrupted one does.
        return step == run.steps or (step > 0 and every > 0 and step % every == 0)

    with (
        StopSignals() as signals,
        Progress(run.steps, "steps", plan.label, initial=step) as progress,
        _explained(checkpoints, counter, run, directory, distribution),
    ):
        evaluator = Evaluator(plan, distribution, signals)

        def evaluate() -> None:
            figures = evaluator.figures()
            if not math.isfinite(figures["loss"]):
                raise CommandError(
                    f"step {step}: the held-out loss is {figures['loss']}, expected a "
                    "finite number; nothing of this step was saved"
                )
            log.validation(step, figures)
            progress.note(f"{plan.label}: step {step} held out: {_shown(figures)}")
            if state.best_loss is None or figures["loss"] < state.best_loss:
                state.best_loss = figures["loss"]
                checkpoints.save_best()
                if plan.write_model is not None and step < run.steps:
                    plan.write_model(directory.model)

        if due(run.evaluate_every) and not log.was_evaluated(step):
            evaluate()  # a stop came between the step and its evaluation
            checkpoints.save()
        while step < run.steps:
            signals.check()
            timer.start()
            figures = steps.take()
            step += 1
            if timer.stop():
                progress.note(
                    f"{plan.label}: first step after {timer.first_step_seconds:.1f} s "
                    "(building the graph)"
                )
            state.add(figures)
            state.running.add(plan.parts(step - 1), figures["loss"])
            progress.set(**{n: figures[n] for n in _ON_THE_BAR if n in figures})
            progress.update(1)
            if due(run.log_every):
                means = plan.train_figures(state.take_means())
                means |= state.running.figures()
                log.train(step, means, timer.take())
            if due(run.evaluate_every):
                evaluate()
            if due(run.checkpoint_every):
                checkpoints.save()
    if plan.write_model is not None:
        plan.write_model(directory.model)
    return Outcome(
        steps=step,
        train=directory.last_metrics("train"),
        validation=directory.last_metrics("validation"),
        best_loss=state.best_loss,
        examples_per_second=log.examples_per_second(run.batch_size),
        traces=steps.traces,
    )


_ON_THE_BAR = ("loss", "accuracy")


@contextlib.contextmanager
def _explained(
    checkpoints: Checkpoints,
    counter: tf.Variable,
    run: Run,
    directory: RunDirectory,
    distribution: Distribution,
) -> Iterator[None]:
    """Saves what a stop would lose, and says how to go on after one."""
    try:
        yield
    except StopRequested as request:
        checkpoints.save()
        request.explain(
            f"stopped by {request.signal} at step {int(counter.numpy())} of "
            f"{run.steps}; the checkpoint is saved, the same command goes on"
        )
        raise
    except _WORKER_LOST as error:
        if distribution.num_workers == 1:
            raise
        raise CommandError(
            f"step {int(counter.numpy()) + 1}: a worker of the "
            f"{distribution.num_workers} stopped answering, and training stopped "
            f"with it ({type(error).__name__}). The checkpoints in "
            f"{directory.checkpoints} are sound: start every worker again, the "
            "same command goes on from the last one"
        ) from error


def _shown(figures: Figures) -> str:
    return ", ".join(
        f"{name} {value:.4g}"
        for name, value in figures.items()
        if isinstance(value, float)
    )
