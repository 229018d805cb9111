"""``rank-check``: does the order by inherited weights mean anything?

Some architectures are trained from scratch, all for the same budget, and their own
loss is compared with the one that they inherit from the supernet, on the same
held-out records and masks. Beside it stand predictors that cost nothing, the agreement
of two supernets, and how well training from scratch agrees with itself.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from lvbert_tf import Architecture
from training.pretraining.experiment import (
    SUPERNET,
    SupernetExperiment,
    load_supernet,
)
from training.pretraining.from_scratch import settings_of, train
from training.run.directory import RunDirectory
from training.run.progress import Progress
from training.run.stage import run_once
from training.scoring.evaluate import evaluate
from training.scoring.inputs import check_data
from training.scoring.random_architectures import draw_architectures, letter_sets
from training.scoring.score import LOSS_DIGITS
from training.search.experiment import Space
from training.search.space import make_cost
from training.studies.experiment import RANK_CHECK, RankCheckExperiment
from training.studies.rank_report import rank_report

_FIGURES = ("loss", "accuracy", "loss_all", "accuracy_all")


def run(configuration: RankCheckExperiment, run_dir: Path | None) -> dict[str, Any]:
    """Trains, scores and compares.

    Args:
        configuration: of the command.
        run_dir: where everything is written; None: `rank_check` in the supernet's.

    Returns:
        `kendall_tau` and `spearman` between the orders by inherited and by own loss at
        the positions that show [MASK], `interval` and `spearman_interval` (95%,
        bootstrap over the architectures), `n`, `within` the sets of letters,
        `baselines`, `noise_ceiling`, `supernet_agreement`, `unigram_loss`, and
        `architectures` with all figures. What is undefined is the word `"undefined"`,
        and `undefined` says why.

    Raises:
        UsageError: if supernet, data and options do not fit together.
    """
    scoring, study = configuration.scoring, configuration.study
    data_dir = configuration.data.directory
    source = RunDirectory.existing(Path(scoring.supernet), "--supernet", SUPERNET)
    supernet = load_supernet(source.config_file)
    identity = check_data(data_dir, supernet, source.versions()["data"])
    _check_second(scoring.second_supernet, supernet, data_dir)
    chosen = draw_architectures(
        letter_sets(study.letter_sets, supernet.model.letters),
        supernet.model.num_layers,
        study.architectures,
        study.seed,
    )
    directory = run_dir or source.path / "rank_check"
    return run_once(
        RANK_CHECK,
        configuration,
        directory,
        {**identity, "supernet": source.versions()["data"]},
        lambda: _compare(configuration, supernet, chosen, directory),
    )


def _compare(
    configuration: RankCheckExperiment,
    supernet: SupernetExperiment,
    chosen: Sequence[tuple[str, str]],
    run_dir: Path,
) -> dict[str, Any]:
    """Returns the result for drawn architectures, each with its set of letters."""
    scoring = configuration.scoring
    data_dir = configuration.data.directory
    names = [architecture for architecture, _ in chosen]
    sets = [letters for _, letters in chosen]
    own = _train(configuration, supernet, names, run_dir)
    scored = _inherited(scoring.supernet, data_dir, names, scoring.examples)
    inherited = scored["results"]
    others = None
    if scoring.second_supernet:
        others = _worth(
            _inherited(scoring.second_supernet, data_dir, names, scoring.examples)[
                "results"
            ]
        )
    return {
        **rank_report(
            sets,
            _worth(inherited),
            [_worth(results) for results in own],
            others,
            _baselines(supernet, data_dir, names),
        ),
        "by": "loss",
        "unigram_loss": scored["unigram_loss"],
        "warnings": scored["warnings"],
        "architectures": [
            {
                "architecture": name,
                "letter_set": letters,
                **{f"inherited_{figure}": score[figure] for figure in _FIGURES},
                **{
                    f"own_{figure}": [result[figure] for result in results]
                    for figure in _FIGURES
                },
            }
            for name, letters, score, results in zip(
                names, sets, inherited, own, strict=True
            )
        ],
        "steps": configuration.study.steps,
        "run_dir": str(run_dir),
    }


def _check_second(path: str, supernet: SupernetExperiment, data_dir: str) -> None:
    """Checks the second supernet, if there is one, against the first."""
    if not path:
        return
    source = RunDirectory.existing(Path(path), "--second-supernet", SUPERNET)
    other = load_supernet(source.config_file)
    for name in ("letters", "num_layers"):
        ours, theirs = getattr(supernet.model, name), getattr(other.model, name)
        if ours != theirs:
            raise UsageError(
                f"--second-supernet {path}: its model.{name} is {theirs!r}, "
                f"expected {ours!r} as that of --supernet"
            )
    check_data(data_dir, other, source.versions()["data"])


def _train(
    configuration: RankCheckExperiment,
    supernet: SupernetExperiment,
    architectures: Sequence[str],
    run_dir: Path,
) -> list[list[dict[str, Any]]]:
    """Returns the results of each architecture, one for each training seed."""
    study = configuration.study
    results_of: list[list[dict[str, Any]]] = [[] for _ in architectures]
    total = len(architectures) * study.training_seeds
    with Progress(total, "trainings", "rank-check") as progress:
        for seed in range(study.training_seeds):
            for name, results in zip(architectures, results_of, strict=True):
                settings = settings_of(
                    supernet,
                    name,
                    data_dir=configuration.data.directory,
                    steps=study.steps,
                    seed=seed,
                    batch_size=study.batch_size,
                    learning_rate=study.learning_rate,
                )
                settings = dataclasses.replace(
                    settings,
                    data=dataclasses.replace(
                        settings.data,
                        validation_examples=configuration.scoring.examples,
                    ),
                )
                result = train(settings, run_dir / "trained" / f"{name}_{seed}")
                results.append(result)
                progress.set(loss=result["loss"])
                progress.update(1)
    return results_of


def _inherited(
    supernet: str, data_dir: str, architectures: Sequence[str], examples: int
) -> dict[str, Any]:
    return evaluate(
        Path(supernet),
        data_dir,
        [Architecture(name) for name in architectures],
        examples=examples,
    )


def _worth(results: Sequence[dict[str, Any]]) -> list[float]:
    """What orders: less loss is better. Rounded as a search rounds it."""
    return [-round(float(result["loss"]), LOSS_DIGITS) for result in results]


def _baselines(
    supernet: SupernetExperiment, data_dir: str, architectures: Sequence[str]
) -> dict[str, list[float]]:
    """What costs nothing to know of an architecture."""
    space = Space()
    letters = supernet.model.letters
    names = ["params", "flops", *(f"count_{letter}" for letter in letters)]
    return {
        name: [
            make_cost(name, space, supernet, data_dir).value(a) for a in architectures
        ]
        for name in names
    }
