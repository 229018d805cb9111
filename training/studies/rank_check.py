"""``rank-check``: does the order by inherited weights mean anything?

Some architectures are trained from scratch, all for the same budget, and their own
accuracy is compared with the one that they inherit from the supernet, on the same
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
from training.run.directory import RunDirectory, write_text
from training.run.progress import Progress
from training.scoring import evaluate
from training.scoring.inputs import check_data
from training.scoring.random_architectures import draw_architectures, letter_sets
from training.search.experiment import Space
from training.search.space import make_cost
from training.studies.rank_report import rank_report


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Trains, scores and compares.

    Args:
        options: those of the command.

    Returns:
        `kendall_tau` and `spearman` between inherited and own accuracy, `interval` and
        `spearman_interval` (95%, bootstrap over the architectures), `n`, `within` the
        sets of letters, `baselines`, `noise_ceiling`, `supernet_agreement`, and
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
    own = _train(options, supernet, data_dir, [a for a, _ in chosen], run_dir)
    names = [architecture for architecture, _ in chosen]
    inherited = _inherited(options.supernet, data_dir, names, options.examples)
    others = (
        None
        if second is None
        else _inherited(second, data_dir, names, options.examples)
    )
    result = {
        **rank_report(
            names,
            [letters for _, letters in chosen],
            inherited,
            own,
            others,
            _baselines(supernet, data_dir, names),
        ),
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
) -> list[list[float]]:
    """Returns the accuracies of each architecture, one for each training seed."""
    run_dir.mkdir(parents=True, exist_ok=True)
    found: list[list[float]] = [[] for _ in architectures]
    total = len(architectures) * options.training_seeds
    with Progress(total, "trainings", "rank-check") as progress:
        for seed in range(options.training_seeds):
            for name, accuracies in zip(architectures, found, strict=True):
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
                accuracies.append(float(result["mlm_accuracy"]))
                progress.set(accuracy=accuracies[-1])
                progress.update(1)
    return found


def _inherited(
    supernet: Path, data_dir: str, architectures: Sequence[str], examples: int
) -> list[float]:
    scored = evaluate.run(
        supernet,
        data_dir,
        [Architecture(name) for name in architectures],
        examples=examples,
    )
    return [float(result["accuracy"]) for result in scored["results"]]


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
