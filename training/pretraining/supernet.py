"""``supernet``: trains all architectures of a length in one set of shared weights."""

import functools
from pathlib import Path
from typing import Any

from lvbert_tf.search.sampling import route
from training.data.manifest import DataManifest
from training.loop.batches import (
    HELD_OUT_SEED,
    RouteSampling,
    held_out_batches,
    training_batches,
)
from training.loop.figures import draw_running_losses
from training.loop.plan import Plan
from training.loop.running_losses import parts_of_path
from training.loop.train import train
from training.loop.unigram_loss import held_out_unigram_loss
from training.metrics.masked_lm import masked_lm_figures
from training.pretraining.experiment import SupernetExperiment
from training.pretraining.stage import (
    compile_model,
    finish,
    run_once,
    write_preset,
)
from training.pretraining.trained_supernet import build
from training.run.directory import RunDirectory
from training.run.opening import prepare_devices


def run(settings: SupernetExperiment, run_dir: Path) -> dict[str, Any]:
    """Trains a supernet, or goes on where an earlier call stopped.

    Args:
        settings: the experiment.
        run_dir: where everything is written.

    Returns:
        `steps`; on held-out text, as a mean over fixed random routes, `loss` and
        `accuracy` at the positions that show [MASK], `unigram_loss` there, and those
        over all predicted positions and over the kept ones, see
        `training.metrics.masked_lm`; `examples_per_second`, and more.
    """
    return run_once(settings, run_dir, _train)


def _train(settings: SupernetExperiment, directory: RunDirectory) -> dict[str, Any]:
    run_options = settings.run
    distribution = prepare_devices(run_options)
    tokenizer = DataManifest.load(settings.data.directory).tokenizer()
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
        write_preset(model, tokenizer, settings, target)

    unigram_loss = held_out_unigram_loss(settings.data)
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
            summarize=lambda sums: {
                **masked_lm_figures(sums),
                "unigram_loss": unigram_loss,
            },
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
        outcome.validation,
        settings,
    )
