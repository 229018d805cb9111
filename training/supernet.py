"""``supernet``: trains all architectures of a length in one set of shared weights."""

import argparse
import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import CommandError
from training import experiment
from training.batches import HELD_OUT_SEED, RouteSampling, data_identity
from training.experiment import Encoder, SupernetExperiment, SupernetModel
from training.figures import draw_running_losses
from training.run_directory import RunDirectory

if TYPE_CHECKING:
    from lvbert_tf import LVBertSupernet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    experiment.add_arguments(parser)


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    return run(
        experiment.load_supernet(arguments.config, experiment.overrides_of(arguments)),
        arguments.run_dir,
    )


def run(settings: SupernetExperiment, run_dir: Path) -> dict[str, Any]:
    """Trains a supernet, or goes on where an earlier call stopped.

    Args:
        settings: the experiment.
        run_dir: where everything is written.

    Returns:
        `steps`, `loss`, `accuracy` on held-out text (mean over fixed random routes),
        `examples_per_second`, and more.
    """
    from training.stage import open_run

    config = experiment.to_toml(settings)
    identity = data_identity(settings.data)
    with open_run(run_dir, config, identity, settings.run) as directory:
        finished = directory.result()
        return finished if finished is not None else _train(settings, directory)


def _train(settings: SupernetExperiment, directory: RunDirectory) -> dict[str, Any]:
    from lvbert_tf.search.sampling import route
    from training.batches import held_out_batches, training_batches
    from training.data.verification import start_verification
    from training.loop import train
    from training.plan import Plan
    from training.running_losses import parts_of_path
    from training.stage import checked_tokenizer, compile_model, finish, prepare_devices

    # Beside what follows; the batches wait for the result.
    start_verification(settings.data.directory, "train")
    run_options = settings.run
    distribution = prepare_devices(run_options)
    tokenizer = checked_tokenizer(settings.data)
    with distribution.strategy.scope():
        model = build(settings.model, tokenizer.vocabulary_size())
        compile_model(model, settings.optimizer, run_options)
    letters = settings.model.letters
    shape = (settings.model.num_layers, len(letters))
    draw = functools.partial(
        route,
        num_layers=shape[0],
        num_letters=shape[1],
        method=run_options.sampling,
    )

    def path(step: int) -> str:
        return "".join(letters[i] for i in draw(run_options.seed, step))

    validation_routes = [
        route(HELD_OUT_SEED, index, *shape).tolist()
        for index in range(run_options.validation_routes)
    ]

    def write_model(target: Path) -> None:
        from training.stage import write_preset

        # A copy without the optimizer: its moments belong into checkpoints, not here.
        stored = build(settings.model, tokenizer.vocabulary_size())
        stored.set_weights(model.get_weights())
        write_preset(stored, tokenizer, settings, target)

    outcome = train(
        Plan(
            label="supernet",
            model=model,
            training_batches=training_batches(
                settings.data,
                batch_size=run_options.batch_size,
                seed=run_options.seed,
                distribution=distribution,
                routes=RouteSampling(run_options.seed, *shape, run_options.sampling),
            ),
            validation_batches=lambda: held_out_batches(
                settings.data,
                batch_size=run_options.batch_size,
                distribution=distribution,
                routes=validation_routes,
            ),
            summarize=masked_lm_figures,
            describe_step=lambda step: f" (route {path(step)})",
            parts=lambda step: parts_of_path(path(step)),
            write_model=write_model if distribution.is_chief else None,
        ),
        run_options,
        directory,
        distribution,
    )
    draw_running_losses(
        directory.metrics(), letters, shape[0], directory.figures / "letters.png"
    )
    return finish(
        directory,
        "supernet",
        outcome,
        {
            "loss": outcome.validation["loss"],
            "accuracy": outcome.validation["accuracy"],
        },
        settings,
    )


def build(model: SupernetModel, vocabulary_size: int) -> "LVBertSupernet":
    """Returns a new supernet of the configured sizes."""
    from lvbert_tf import LVBertSupernet

    return LVBertSupernet(
        vocabulary_size,
        letters=model.letters,
        num_layers=model.num_layers,
        **{field.name: getattr(model, field.name) for field in fields(Encoder)},
        name="supernet",
    )


def masked_lm_figures(sums: dict[str, Any]) -> dict[str, Any]:
    """Returns loss (nats) and accuracy per masked token from the sums of `test_step`.

    Raises:
        CommandError: if nothing was masked.
    """
    masked = float(sums["masked_tokens"])
    if masked == 0:
        raise CommandError(
            "the held-out set has no masked token: expected at least one example "
            "with a token that is not special"
        )
    return {
        "loss": float(sums["loss_sum"]) / masked,
        "accuracy": float(sums["correct"]) / masked,
        "masked_tokens": masked,
    }


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
    import tensorflow as tf

    from training.checkpoint_variables import by_path

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
