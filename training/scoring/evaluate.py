"""``evaluate``: scores architectures with the weights they inherit from a supernet."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from lvbert_tf import Architecture
from training.loop.batches import HELD_OUT_SEED, data_identity
from training.pretraining import trained_supernet
from training.pretraining.experiment import SUPERNET, load_supernet
from training.pretraining.trained_supernet import TrainedSupernet
from training.run.arguments import parse
from training.run.devices import set_up
from training.run.directory import RunDirectory
from training.run.progress import Progress
from training.run.stage import run_once
from training.scoring.experiment import EVALUATE, EvaluateExperiment
from training.scoring.inputs import check_fits
from training.scoring.path_losses import path_losses
from training.scoring.random_architectures import draw_architectures
from training.scoring.score import figures_of
from training.scoring.supernet_doubts import SupernetDoubts
from training.scoring.supernet_scorer import SupernetScorer


def run(
    configuration: EvaluateExperiment, run_dir: Path | None = None
) -> dict[str, Any]:
    """Scores what the configuration names; see `evaluate`.

    Args:
        configuration: of the command.
        run_dir: where configuration and result are kept; None: nowhere.

    Raises:
        UsageError: if it names nothing to score, or supernet, data and architectures
            do not fit together.
    """
    scoring = configuration.scoring
    specs = [spec for spec in scoring.architectures.split(",") if spec.strip()]
    if not specs and not scoring.random:
        raise UsageError("expected --architecture SPEC..., --random N, or both")
    architectures = [parse(spec) for spec in specs]
    supernet = Path(scoring.supernet)
    source = RunDirectory.existing(supernet, "--supernet", SUPERNET)
    identity = {
        **data_identity(
            dataclasses.replace(
                load_supernet(source.config_file).data,
                directory=configuration.data.directory,
            )
        ),
        "supernet": source.versions()["data"],
    }
    return run_once(
        EVALUATE,
        configuration,
        run_dir,
        identity,
        lambda: evaluate(
            supernet,
            configuration.data.directory,
            architectures,
            batch_size=scoring.batch_size,
            examples=scoring.examples,
            seed=scoring.mask_seed,
            random=scoring.random,
        ),
    )


def evaluate(
    supernet_dir: Path,
    data_dir: str,
    architectures: Sequence["Architecture"],
    *,
    batch_size: int = 32,
    examples: int = 0,
    seed: int = HELD_OUT_SEED,
    random: int = 0,
) -> dict[str, Any]:
    """Scores every architecture on the same held-out records and masks.

    Args:
        supernet_dir: run directory of the supernet.
        data_dir: the data directory.
        architectures: what to score.
        batch_size: examples at once.
        examples: how many held-out examples, 0 for all.
        seed: of the masks.
        random: how many random paths to score as well.

    Returns:
        `results`, one object for each architecture: `architecture`, `accuracy`,
        `loss` (nats a token), `standard_error` of the accuracy, `masked_tokens`, all
        of the positions that show [MASK], and the figures of the kept and of all
        positions, see `training.scoring.score.Score`; `unigram_loss`, that of the
        training text's token frequencies; `warnings`. With random paths
        `random_paths`, see `training.scoring.path_losses`.
    """
    set_up()
    trained = trained_supernet.load(supernet_dir)
    identity = check_fits(trained, architectures, data_dir)
    named = [str(architecture) for architecture in architectures]
    drawn = _random_paths(trained, random)
    scorer = SupernetScorer(
        trained,
        dataclasses.replace(
            trained.settings.data, directory=data_dir, validation_examples=examples
        ),
        batch_size=batch_size,
        seed=seed,
        held_out_sha256=identity["held_out_sha256"],
    )
    with Progress(len(named) + len(drawn), "architectures", "evaluate") as progress:
        shown = 0

        def show(share: float) -> None:
            nonlocal shown
            done = int(share * (len(named) + len(drawn)))
            progress.update(done - shown)
            shown = done

        scores = scorer.score([*named, *drawn], on_work=show)
    unigram_loss = scorer.unigram_loss()
    doubts = SupernetDoubts(unigram_loss, trained.step, trained.settings.run.steps)
    doubts.look(scores[len(named) :])
    result: dict[str, Any] = {
        "results": [figures_of(score) for score in scores[: len(named)]],
        "unigram_loss": unigram_loss,
        "supernet_step": trained.step,
        "warnings": doubts.warnings,
    }
    if drawn:
        result["random_paths"] = path_losses(
            {score.architecture: score.loss for score in scores[len(named) :]},
            trained.model.letters,
        )
    return result


def _random_paths(trained: "TrainedSupernet", count: int) -> list[str]:
    if count < 1:
        return []
    model = trained.model
    drawn = draw_architectures([model.letters], model.num_layers, count, seed=0)
    return [name for name, _ in drawn]
