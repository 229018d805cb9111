"""``rank-check``: does the order by inherited weights mean anything?

Some architectures are trained from scratch, all for the same budget, and their own
loss is compared with the one that they inherit from the supernet, on the same
held-out records and masks. Beside it stand predictors that cost nothing, the agreement
of two supernets, and how well training from scratch agrees with itself.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from command_line import UsageError
from lvbert_tf import Architecture
from training.pretraining import experiment
from training.pretraining.experiment import SupernetExperiment
from training.pretraining.from_scratch import settings_of, train
from training.run.directory import RunDirectory
from training.run.files import write_text
from training.run.progress import Progress
from training.scoring import evaluate
from training.scoring.inputs import check_data
from training.scoring.random_architectures import draw_architectures, letter_sets
from training.scoring.score import LOSS_DIGITS
from training.search.experiment import Space
from training.search.space import make_cost
from training.studies.rank_report import rank_report

_FIGURES = ("loss", "accuracy", "loss_all", "accuracy_all")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Trains, scores and compares.

    Args:
        options: those of the command.

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
    source = RunDirectory.existing(options.supernet, "--supernet", experiment.SUPERNET)
    supernet = experiment.load_supernet(source.config_file, [])
    data_dir = str(options.data.absolute())
    check_data(data_dir, supernet, source.versions()["data"])
    second = _second(options, supernet, data_dir)
    chosen = draw_architectures(
        letter_sets(options.letter_sets, supernet.model.letters),
        supernet.model.num_layers,
        options.architectures,
        options.seed,
    )
    run_dir = options.run_dir or options.supernet / "rank_check"
    names = [architecture for architecture, _ in chosen]
    sets = [letters for _, letters in chosen]
    own = _train(options, supernet, data_dir, names, run_dir)
    scored = _inherited(options.supernet, data_dir, names, options.examples)
    inherited = scored["results"]
    others = (
        None
        if second is None
        else _inherited(second, data_dir, names, options.examples)["results"]
    )
    result = {
        **rank_report(
            sets,
            _worth(inherited),
            [_worth(results) for results in own],
            None if others is None else _worth(others),
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
        "steps": options.steps,
        "run_dir": str(run_dir),
    }
    write_text(run_dir / "result.json", json.dumps(result, indent=2) + "\n")
    return result


def _second(
    options: argparse.Namespace, supernet: "SupernetExperiment", data_dir: str
) -> Path | None:
    """Checks the second supernet against the first."""
    path: Path | None = options.second_supernet
    if path is None:
        return None
    source = RunDirectory.existing(path, "--second-supernet", experiment.SUPERNET)
    other = experiment.load_supernet(source.config_file, [])
    for name in ("letters", "num_layers"):
        ours, theirs = getattr(supernet.model, name), getattr(other.model, name)
        if ours != theirs:
            raise UsageError(
                f"--second-supernet {path}: its model.{name} is {theirs!r}, "
                f"expected {ours!r} as that of --supernet"
            )
    check_data(data_dir, other, source.versions()["data"])
    return path


def _train(
    options: argparse.Namespace,
    supernet: "SupernetExperiment",
    data_dir: str,
    architectures: Sequence[str],
    run_dir: Path,
) -> list[list[dict[str, Any]]]:
    """Returns the results of each architecture, one for each training seed."""
    run_dir.mkdir(parents=True, exist_ok=True)
    found: list[list[dict[str, Any]]] = [[] for _ in architectures]
    total = len(architectures) * options.training_seeds
    with Progress(total, "trainings", "rank-check") as progress:
        for seed in range(options.training_seeds):
            for name, results in zip(architectures, found, strict=True):
                settings = settings_of(
                    supernet,
                    name,
                    data_dir=data_dir,
                    steps=options.steps,
                    seed=seed,
                    objective="mlm",
                    batch_size=options.batch_size,
                    learning_rate=options.learning_rate,
                )
                settings = dataclasses.replace(
                    settings,
                    data=dataclasses.replace(
                        settings.data, validation_examples=options.examples
                    ),
                )
                result = train(settings, run_dir / "trained" / f"{name}_{seed}")
                results.append(result)
                progress.set(loss=result["loss"])
                progress.update(1)
    return found


def _inherited(
    supernet: Path, data_dir: str, architectures: Sequence[str], examples: int
) -> dict[str, Any]:
    return evaluate.run(
        supernet,
        data_dir,
        [Architecture(name) for name in architectures],
        examples=examples,
    )


def _worth(results: Sequence[dict[str, Any]]) -> list[float]:
    """What orders: less loss is better. Rounded as a search rounds it."""
    return [-round(float(result["loss"]), LOSS_DIGITS) for result in results]


def _baselines(
    supernet: "SupernetExperiment", data_dir: str, architectures: Sequence[str]
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
