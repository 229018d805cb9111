"""A supernet that was trained: its weights, settings and data."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tensorflow as tf

from common.command_line import CommandError
from lvbert_tf import LVBertSupernet
from training.loop.checkpoint_variables import by_path
from training.pretraining import experiment
from training.pretraining.experiment import Encoder, SupernetExperiment, SupernetModel
from training.run.directory import RunDirectory


def build(model: SupernetModel, vocabulary_size: int) -> "LVBertSupernet":
    """Returns a new supernet of the configured sizes."""
    return LVBertSupernet(
        vocabulary_size,
        letters=model.letters,
        num_layers=model.num_layers,
        **{field.name: getattr(model, field.name) for field in fields(Encoder)},
        name="supernet",
    )


@dataclass(frozen=True)
class TrainedSupernet:
    """A supernet read from its run directory.

    Attributes:
        settings: its experiment.
        model: with the weights of the last checkpoint.
        step: of that checkpoint.
        versions: of the run, with `data`, the hashes of what it was trained on.
        test_step: the model's, as one traced function of a batch with its route.
    """

    settings: SupernetExperiment
    model: "LVBertSupernet"
    step: int
    versions: dict[str, Any]
    test_step: Callable[[dict[str, Any]], dict[str, Any]]


def load(run_dir: Path, option: str = "--supernet") -> TrainedSupernet:
    """Reads a supernet with its trained weights.

    Args:
        run_dir: run directory of the command ``supernet``.
        option: the command-line option that named it, for messages.

    Raises:
        UsageError: if it is no such directory.
        CommandError: if it has no checkpoint, or one that does not fit.
    """
    directory = RunDirectory.existing(run_dir, option, experiment.SUPERNET)
    settings = experiment.load_supernet(directory.config_file, [])
    path = tf.train.latest_checkpoint(str(directory.checkpoints))
    if path is None:
        raise CommandError(
            f"{option} {run_dir}: expected a checkpoint in {directory.checkpoints}, "
            "found none; let `supernet` run at least to its first checkpoint"
        )
    shapes = dict(tf.train.list_variables(path))
    table = next(shape for name, shape in shapes.items() if "token_embedding" in name)
    model = build(settings.model, table[0])
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=by_path(model.weights), step=step)
    checkpoint.restore(path).expect_partial().assert_existing_objects_matched()
    return TrainedSupernet(
        settings,
        model,
        int(step.numpy()),
        directory.versions(),
        tf.function(model.test_step, autograph=False),
    )
