"""``random-baseline``: the best of some random architectures trained from scratch.

The paper's rows "Random" of Table 1: five for each set of layer types, without a
supernet. They are compared by their own masked-LM loss: ELECTRA's losses depend on how
good each candidate's generator is, and say nothing across candidates.
"""

import dataclasses
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.files import write_text
from common.hashes import content_sha256
from training.loop.batches import data_identity
from training.pretraining.experiment import (
    SUPERNET,
    SupernetExperiment,
    load_supernet,
    pretrain_winner,
    to_toml,
)
from training.pretraining.from_scratch import settings_of, train
from training.run.directory import RunDirectory
from training.run.progress import Progress
from training.run.stage import run_once
from training.scoring.random_architectures import draw_architectures
from training.scoring.score import LOSS_DIGITS
from training.studies.experiment import RANDOM_BASELINE, RandomBaselineExperiment

_FIGURE = "loss"


def run(configuration: RandomBaselineExperiment, run_dir: Path) -> dict[str, Any]:
    """Draws, trains and compares.

    Args:
        configuration: of the command.
        run_dir: where everything is written.

    Returns:
        `best`, `candidates` (every architecture with its held-out figures), `by`, the
        figure that decided, and `winner`, a configuration for `pretrain`.

    Raises:
        UsageError: if the options do not fit together.
    """
    study = configuration.study
    supernet = _sizes(configuration)
    letters = study.letters or supernet.model.letters
    foreign = [letter for letter in letters if letter not in supernet.model.letters]
    if foreign:
        raise UsageError(
            f"--letters {letters}: expected letters of {supernet.model.letters!r}, "
            f"found {foreign[0]!r}"
        )
    # Not where the data lie: their content is compared.
    sizes = dataclasses.asdict(supernet)
    del sizes["data"]["directory"]
    identity = {
        **data_identity(supernet.data),
        "sizes_sha256": content_sha256(sizes),
    }
    return run_once(
        RANDOM_BASELINE,
        configuration,
        run_dir,
        identity,
        lambda: _compare(configuration, supernet, letters, run_dir),
    )


def _compare(
    configuration: RandomBaselineExperiment,
    supernet: SupernetExperiment,
    letters: str,
    run_dir: Path,
) -> dict[str, Any]:
    study = configuration.study
    chosen = draw_architectures(
        [letters], supernet.model.num_layers, study.architectures, study.seed
    )
    candidates = []
    with Progress(len(chosen), "trainings", "random-baseline") as progress:
        for name, _ in chosen:
            settings = settings_of(
                supernet,
                name,
                data_dir=supernet.data.directory,
                steps=study.steps or supernet.run.steps,
                seed=study.seed,
                batch_size=study.batch_size,
                learning_rate=study.learning_rate,
            )
            result = train(settings, run_dir / "trained" / name)
            figures = {k: v for k, v in result.items() if isinstance(v, float)}
            candidates.append(
                {"architecture": name, "model": result["model"], **figures}
            )
            progress.set(loss=result[_FIGURE])
            progress.update(1)
    best = min(candidates, key=_rank)
    winner = run_dir / "winner.toml"
    write_text(winner, to_toml(pretrain_winner(supernet, str(best["architecture"]))))
    return {
        "best": best,
        "by": _FIGURE,
        "candidates": candidates,
        "letters": letters,
        "winner": str(winner),
        "run_dir": str(run_dir),
    }


def _rank(candidate: dict[str, Any]) -> tuple[float, str]:
    """Less loss first; what float noise could swap goes by name."""
    return round(float(candidate[_FIGURE]), LOSS_DIGITS), str(candidate["architecture"])


def _sizes(configuration: RandomBaselineExperiment) -> SupernetExperiment:
    """Returns the supernet's configuration, with the data to use.

    Raises:
        UsageError: unless it is given exactly once.
    """
    given = configuration.supernet
    if bool(given.run_dir) == bool(given.config):
        raise UsageError("expected either --supernet or --sizes")
    file = Path(given.config)
    if given.run_dir:
        path = Path(given.run_dir)
        file = RunDirectory.existing(path, "--supernet", SUPERNET).config_file
    supernet = load_supernet(file)
    if not configuration.data.directory:
        return supernet
    data = dataclasses.replace(supernet.data, directory=configuration.data.directory)
    return dataclasses.replace(supernet, data=data)
