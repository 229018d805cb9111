"""What a run keeps on disk so that it can go on: the last checkpoints and the best."""

import json
import sys
from typing import Any

import tensorflow as tf

from common.command_line import CommandError
from training.loop.checkpoint_variables import by_path
from training.loop.running_losses import RunningLosses
from training.run.devices import Distribution
from training.run.directory import RunDirectory


class LoopState:
    """What the loop itself must remember across a resume, kept in the checkpoint.

    Attributes:
        sums: sums of the training figures since the last line of the log.
        count: steps in `sums`.
        best_loss: lowest held-out loss so far.
        running: running means of the loss.
    """

    def __init__(self) -> None:
        self.variable = tf.Variable("{}", dtype=tf.string, trainable=False)
        self.sums: dict[str, float] = {}
        self.count = 0
        self.best_loss: float | None = None
        self.running = RunningLosses()

    def read(self) -> None:
        """Takes over what a checkpoint restored into the variable."""
        content = json.loads(self.variable.numpy())
        self.sums = content.get("sums", {})
        self.count = content.get("count", 0)
        self.best_loss = content.get("best_loss")
        self.running = RunningLosses(content.get("running"))

    def write(self) -> None:
        """Puts everything into the variable; doubles survive JSON exactly."""
        self.variable.assign(
            json.dumps(
                {
                    "sums": self.sums,
                    "count": self.count,
                    "best_loss": self.best_loss,
                    "running": self.running.values,
                }
            )
        )

    def add(self, figures: dict[str, float]) -> None:
        """Adds one step's figures."""
        for name, value in figures.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1

    def take_means(self) -> dict[str, float]:
        """Returns the means since the last call and begins anew."""
        means = {name: value / self.count for name, value in self.sums.items()}
        self.sums, self.count = {}, 0
        return means


class Checkpoints:
    """The last N checkpoints and the best one.

    Args:
        model: with a built `optimizer`.
        keep: how many of the last ones to keep.
        directory: of the run.
        distribution: the strategy that the variables live under.
        step: the global step.
        state: what the loop remembers besides.
    """

    def __init__(
        self,
        model: Any,
        keep: int,
        directory: RunDirectory,
        distribution: Distribution,
        step: tf.Variable,
        state: LoopState,
    ) -> None:
        self._model = model
        self._strategy = distribution.strategy
        self._step = step
        self._state = state
        self._checkpoint = tf.train.Checkpoint(
            model=by_path(model.weights),
            optimizer=by_path(model.optimizer.variables),
            step=step,
            loop=state.variable,
        )
        self._latest = tf.train.CheckpointManager(
            self._checkpoint, str(directory.checkpoints), keep
        )
        self._best = tf.train.CheckpointManager(
            self._checkpoint, str(directory.checkpoints / "best"), 1
        )
        self._restore_from = directory.shared_checkpoints

    def restore(self, *, reset_optimizer: bool = False) -> None:
        """Restores the last checkpoint, if there is one, and the loop's own state.

        Args:
            reset_optimizer: whether a checkpoint whose optimizer holds other variables
                gives its weights, and the optimizer begins anew, at its step.

        Raises:
            CommandError: if it holds other variables than the model, or than the
                optimizer without `reset_optimizer`.
        """
        path = tf.train.latest_checkpoint(str(self._restore_from))
        if path is None:
            return
        try:
            self._restore(path, self._checkpoint).assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            if not reset_optimizer:
                raise CommandError(
                    f"{path}: cannot restore this checkpoint: {error}\nIf only its "
                    "optimizer holds other variables, --reset-optimizer goes on with "
                    "its weights and a fresh optimizer"
                ) from error
            self._restore_without_optimizer(path)
        self._state.read()

    def _restore(self, path: str, checkpoint: tf.train.Checkpoint) -> Any:
        with self._strategy.scope():
            return checkpoint.restore(path)

    def _restore_without_optimizer(self, path: str) -> None:
        parts = tf.train.Checkpoint(
            model=by_path(self._model.weights),
            step=self._step,
            loop=self._state.variable,
        )
        try:
            status = self._restore(path, parts)
            status.expect_partial().assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise CommandError(
                f"{path}: cannot restore the weights of this checkpoint: {error}"
            ) from error
        optimizer = self._model.optimizer
        for variable in optimizer.variables:
            if variable is not optimizer._learning_rate:
                variable.assign(tf.zeros_like(variable.value))
        optimizer.iterations.assign(self._step)
        print(
            f"warning: {path}: its optimizer holds other variables; the optimizer "
            f"begins anew at step {int(self._step.numpy())}",
            file=sys.stderr,
        )

    def save(self) -> None:
        """Saves the present state as the last checkpoint."""
        self._save(self._latest)

    def save_best(self) -> None:
        """Saves the present state as the best one."""
        self._save(self._best)

    def _save(self, manager: tf.train.CheckpointManager) -> None:
        self._state.write()
        manager.save(checkpoint_number=int(self._step.numpy()))
