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
from typing import TYPE_CHECKING, Any

from command_line import UsageError
from training import experiment
from training.run_directory import RunDirectory, write_text

if TYPE_CHECKING:
    from training.experiment import SupernetExperiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--second-supernet",
        type=Path,
        help="run directory of a supernet of another seed, to compare the two",
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="data directory to train and score on"
    )
    parser.add_argument(
        "--architectures", type=int, default=20, help="how many, K (default: 20)"
    )
    parser.add_argument(
        "--steps", type=int, required=True, help="of each training from scratch"
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        help="where everything is written; run again to resume "
        "(default: rank_check in the supernet's)",
    )
    parser.add_argument(
        "--letter-sets",
        default="",
        help="sets of letters to draw from, separated by commas (default: all the "
        "supernet's, for half of the architectures, and every pair)",
    )
    parser.add_argument(
        "--training-seeds",
        type=int,
        default=2,
        help="trainings of each; the second gives the noise ceiling (default: 2)",
    )
    parser.add_argument(
        "--examples", type=int, default=0, help="held-out examples; 0 takes all"
    )
    parser.add_argument(
        "--batch-size", type=int, default=0, help="of training; 0: the supernet's"
    )
    parser.add_argument(
        "--learning-rate", type=float, default=0.0, help="peak; 0: the supernet's"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the architectures (default: 0)"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    for name, least in (("architectures", 2), ("steps", 1), ("training_seeds", 1)):
        if getattr(arguments, name) < least:
            raise UsageError(
                f"--{name.replace('_', '-')} must be at least {least}, "
                f"found {getattr(arguments, name)}"
            )
    if min(arguments.examples, arguments.batch_size, arguments.seed) < 0:
        raise UsageError("--examples, --batch-size and --seed must be 0 or more")
    return run(arguments)


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
    from training.rank_report import rank_report
    from training.search_inputs import check_data

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


def letter_sets(text: str, letters: str) -> list[str]:
    """Returns the sets of letters to draw from: the supernet's first, then pairs.

    Raises:
        UsageError: if a set has letters that the supernet lacks.
    """
    if not text:
        pairs = [a + b for i, a in enumerate(letters) for b in letters[i + 1 :]]
        return list(dict.fromkeys([letters, *pairs]))
    sets = text.split(",")
    for one in sets:
        foreign = [letter for letter in one if letter not in letters]
        if foreign or not one or len(set(one)) < len(one):
            raise UsageError(
                f"--letter-sets {text}: expected sets of different letters of "
                f"{letters!r}, found {one!r}"
            )
    return sets


def draw_architectures(
    sets: Sequence[str], num_layers: int, count: int, seed: int
) -> list[tuple[str, str]]:
    """Draws different architectures, half of them over the first set of letters.

    Returns:
        Pairs of architecture and the set it was drawn from.

    Raises:
        UsageError: if there are not so many.
    """
    import numpy as np

    from lvbert_tf.search.space import SearchSpace

    generator = np.random.default_rng(seed)
    rest = list(sets[1:]) or [sets[0]]
    half = count if len(sets) == 1 else (count + 1) // 2
    wanted = [sets[0]] * half + [rest[i % len(rest)] for i in range(count - half)]
    chosen: dict[str, str] = {}
    for letters in wanted:
        space = SearchSpace(letters, num_layers)
        for _ in range(1000):
            candidate = space.sample(generator)
            if candidate not in chosen:
                chosen[candidate] = letters
                break
        else:
            raise UsageError(
                f"--architectures {count}: {num_layers} layers of {letters!r} do not "
                "have so many"
            )
    return list(chosen.items())


def _second(
    options: argparse.Namespace, supernet: "SupernetExperiment", data_dir: str
) -> Path | None:
    """Checks the second supernet against the first."""
    from training.search_inputs import check_data

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
    from training.from_scratch import settings_of, train
    from training.progress import Progress

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
    from lvbert_tf import Architecture
    from training import evaluate

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
    from training.search_experiment import Space
    from training.search_space import make_cost

    space = Space()
    letters = supernet.model.letters
    names = ["params", "flops", *(f"count_{letter}" for letter in letters)]
    return {
        name: [
            make_cost(name, space, supernet, data_dir).value(a) for a in architectures
        ]
        for name in names
    }
