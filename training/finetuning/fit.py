"""The loop of one fine-tuning run; it goes on where it was killed, bit for bit.

Not `fit`: an epoch of Keras cannot be entered in its middle, and dropout must be a
function of (seed, step) for a resumed run to draw the same masks.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from common.command_line import CommandError
from lvbert_tf.layer_decay import layer_wise_decay
from lvbert_tf.layers.dropout import dropout_seed
from lvbert_tf.layers.embeddings import gradient_of_occurrences
from lvbert_tf.optimization import AdamW, WarmupLinearDecay
from training.finetuning.encoding import epoch_batches, rounded
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.learning import Learning
from training.finetuning.problem import Problem
from training.metrics.classification import SIGNIFICANT
from training.run.progress import Progress

_LOGS_PER_RUN = 50


class StuckAtChanceError(Exception):
    """A run whose first epoch did not leave chance behind."""


@dataclass
class State:
    """Where a run is; a checkpoint holds it beside the weights.

    Attributes:
        step: steps taken.
        curve: lines of the log so far.
        window: loss, hits and rows of the steps since the last line.
        hits: right answers in the second half of the first epoch, and how many rows.
        best: the best figure on dev so far, and its epoch; None before the first.
        waited: epochs since then.
        stopped: whether the run ended early.
    """

    step: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)
    window: list[tuple[float, float, int]] = field(default_factory=list)
    hits: tuple[float, int] = (0.0, 0)
    best: tuple[float, int] | None = None
    waited: int = 0
    stopped: bool = False


def train(
    problem: Problem,
    settings: FinetuneExperiment,
    learning: Learning,
    seed: int,
    place: Path,
    *,
    may_retry: bool,
) -> State:
    """Trains the problem's model, from the last checkpoint on if there is one.

    Args:
        problem: model and examples.
        settings: of the experiment.
        learning: learning rate, layer decay and epochs.
        seed: of order and dropout.
        place: directory of the run, for its checkpoint.
        may_retry: whether a first epoch at chance ends the run.

    Returns:
        Its end, with the curve: `step`, `loss` and (not of numbers) `accuracy`, means
        since the line before.

    Raises:
        CommandError: if the loss becomes non-finite, with the step.
        StuckAtChanceError: if `may_retry` and the first epoch did not leave chance.
    """
    batch_size = settings.run.batch_size
    per_epoch = math.ceil(len(problem.lengths) / batch_size)
    total = learning.epochs * per_epoch
    optimizer = optimizer_of(problem, settings, learning, total)
    step_function = step_function_of(problem, optimizer, settings, seed)
    every = max(1, total // _LOGS_PER_RUN)
    variables = [*problem.model.weights, *optimizer.variables]
    checkpoint, best = place / "checkpoint.npz", place / "best.npz"
    state = _restore(checkpoint, variables) if checkpoint.exists() else State()
    with Progress(total, "steps", f"seed {seed}: fit", initial=state.step) as progress:
        while state.step < total and not state.stopped:
            epoch, offset = divmod(state.step, per_epoch)
            batches = epoch_batches(
                problem.lengths, batch_size, seed, epoch, settings.run.bucketing
            )
            for rows in batches[offset:]:
                longest = int(problem.lengths[rows].max())
                width = (
                    rounded(longest, problem.width)
                    if settings.run.bucketing
                    else problem.width
                )
                inputs, targets = problem.batch(rows, width)
                loss, hits = step_function(inputs, targets, np.int32(state.step))
                state.step += 1
                state.window.append((float(loss), float(hits), len(rows)))
                if not math.isfinite(state.window[-1][0]):
                    raise CommandError(
                        f"step {state.step}: loss is {state.window[-1][0]}, expected a "
                        "finite number; a lower optimizer.learning_rate helps"
                    )
                if epoch == 0 and state.step > per_epoch // 2:
                    right, seen = state.hits
                    state.hits = (right + float(hits), seen + len(rows))
                progress.set(loss=state.window[-1][0])
                progress.update(1)
                if state.step % every == 0 or state.step == total:
                    _log(state, problem.counts_hits)
                inside = state.step % per_epoch
                if inside and state.step % settings.run.checkpoint_every == 0:
                    _save(checkpoint, variables, state)
            if epoch == 0 and may_retry and not _left_chance(problem, state):
                raise StuckAtChanceError
            if settings.run.keep == "best":
                _judge(problem, settings, state, epoch, seed, best)
            _save(checkpoint, variables, state)
    if settings.run.keep == "best":
        with np.load(best) as stored:
            for index, weight in enumerate(problem.model.weights):
                weight.assign(stored[f"v{index}"])
    return state


def forget_checkpoints(place: Path) -> None:
    """Removes what only an unfinished run needs."""
    for name in ("checkpoint.npz", "best.npz"):
        (place / name).unlink(missing_ok=True)


def optimizer_of(
    problem: Problem, settings: FinetuneExperiment, learning: Learning, total: int
) -> AdamW:
    """Returns the optimizer of `total` steps, with its moments."""
    options = settings.optimizer
    optimizer = AdamW(
        WarmupLinearDecay(
            learning.learning_rate, total, options.warmup_fraction * total
        ),
        weight_decay=options.weight_decay,
        clip_norm=options.clip_norm,
        learning_rate_multipliers=layer_wise_decay(
            len(problem.model.backbone.architecture), learning.layer_decay
        ),
        clip_occurrences=options.clip_occurrences,
    )
    optimizer.build(problem.model.trainable_variables)
    return optimizer


def step_function_of(
    problem: Problem, optimizer: AdamW, settings: FinetuneExperiment, seed: int
) -> Callable[..., Any]:
    """Returns one traced step; one trace serves batches of every shape."""
    variables = problem.model.trainable_variables

    def step(inputs: Any, targets: Any, index: Any) -> Any:
        with (
            dropout_seed(tf.stack([tf.constant(seed, tf.int32), index])),
            tf.GradientTape() as tape,
        ):
            if settings.optimizer.clip_occurrences:
                with gradient_of_occurrences():
                    losses, hits = problem.losses(inputs, targets, training=True)
            else:
                losses, hits = problem.losses(inputs, targets, training=True)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply(gradients, variables)
        return loss, tf.reduce_sum(hits)

    example = problem.batch([0], rounded(int(problem.lengths[0]), problem.width))
    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec([None] * array.ndim, array.dtype), example
    )
    return tf.function(step, input_signature=[*signature, tf.TensorSpec([], tf.int32)])


def _log(state: State, counts_hits: bool) -> None:
    window = state.window
    rows = sum(count for _, _, count in window)
    line = {
        "step": state.step,
        "loss": sum(loss * count for loss, _, count in window) / rows,
    }
    if counts_hits:
        line["accuracy"] = sum(hits for _, hits, _ in window) / rows
    state.curve.append(line)
    state.window = []


def _left_chance(problem: Problem, state: State) -> bool:
    """Whether training rows were got right more often than by guessing."""
    from scipy.stats import binomtest

    hits, rows = state.hits
    if problem.chance is None or problem.chance >= 1 or not rows:
        return True
    test = binomtest(round(hits), rows, problem.chance, alternative="greater")
    return bool(test.pvalue < SIGNIFICANT)


def _judge(
    problem: Problem,
    settings: FinetuneExperiment,
    state: State,
    epoch: int,
    seed: int,
    best: Path,
) -> None:
    """Measures after an epoch, keeps the best weights, and may end the run."""
    figures = problem.evaluate(f"seed {seed}: dev after epoch {epoch + 1}")
    figure = figures[problem.metric]
    value = -math.inf if figure is None else float(figure)
    if state.best is None or value > state.best[0]:
        state.best, state.waited = (value, epoch + 1), 0
        _write_arrays(best, _numbered(problem.model.weights))
    else:
        state.waited += 1
    patience = settings.run.early_stopping
    state.stopped = bool(patience) and state.waited >= patience


def _numbered(variables: Any) -> dict[str, Any]:
    return {f"v{index}": v.numpy() for index, v in enumerate(variables)}


def _save(file: Path, variables: Any, state: State) -> None:
    text = json.dumps(vars(state)).encode()
    _write_arrays(
        file, {**_numbered(variables), "state": np.frombuffer(text, np.uint8)}
    )


def _write_arrays(file: Path, arrays: dict[str, Any]) -> None:
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("wb") as stream:
        np.savez(stream, **arrays)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def _restore(file: Path, variables: Any) -> State:
    """Takes weights, moments and state from a checkpoint.

    Raises:
        CommandError: if it holds other variables than the model and its optimizer.
    """
    with np.load(file) as stored:
        there = len(stored.files) - 1
        if there != len(variables) or any(
            stored[f"v{index}"].shape != tuple(variable.shape)
            for index, variable in enumerate(variables)
        ):
            raise CommandError(
                f"{file}: expected the {len(variables)} variables of model and "
                f"optimizer, found {there} or others; remove the file to begin anew"
            )
        for index, variable in enumerate(variables):
            variable.assign(stored[f"v{index}"])
        content = json.loads(bytes(stored["state"]))
    content["window"] = [tuple(entry) for entry in content["window"]]
    content["hits"] = tuple(content["hits"])
    content["best"] = None if content["best"] is None else tuple(content["best"])
    return State(**content)
