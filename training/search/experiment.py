"""What a search can configure, and its command-line options."""

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

from training.run.settings import setting
from training.scoring.score import FITNESS
from training.search.constraints import COSTS, limits_of

METHODS = ("evolution", "random", "both")
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")


@dataclass(frozen=True)
class Algorithm:
    """How to search; the defaults are the paper's."""

    method: str = setting(
        "evolution, random, or both at equal numbers of candidates",
        "evolution",
        choices=METHODS,
    )
    population: int = setting("candidates of the first generation", 50, minimum=1)
    iterations: int = setting("generations", 20, minimum=1)
    crossover: int = setting("children per generation", 25, minimum=0)
    mutation: int = setting("mutants per generation", 25, minimum=0)
    mutation_probability: float = setting(
        "of each layer of a mutant", 0.1, minimum=0.0, maximum=1.0
    )
    top_k: int = setting("best candidates to keep, the parents", 10, minimum=1)
    patience: int = setting(
        "end after so many generations without a better best; 0 never", 0, minimum=0
    )
    seed: int = setting("of all randomness", 0, minimum=0)
    seeds: int = setting("searches with this and the following seeds", 1, minimum=1)
    initial: str = setting("architectures to begin with, separated by commas", "")
    suggest: bool = setting(
        "whether each generation gets the best string of the regression", False
    )


@dataclass(frozen=True)
class Space:
    """What may be proposed."""

    letters: str = setting("layer types; empty: those of the supernet", "")
    pattern: str = setting("a letter or ? for each layer; empty: all free", "")
    constraints: str = setting("NAME<=NUMBER, separated by commas", "")
    latency_table: str = setting("file of `latency`, for latency_ms", "")


@dataclass(frozen=True)
class Scoring:
    """What scores a candidate, and by which figure it ranks."""

    supernet: str = setting("run directory of the supernet", "")
    fitness: str = setting(
        "what ranks candidates: the loss (less is better) or the accuracy at the "
        "positions that show [MASK], or accuracy_all, over all predicted positions, "
        "as in the paper",
        "loss",
        choices=FITNESS,
    )
    examples: int = setting("held-out examples; 0 takes all", 0, minimum=0)
    mask_seed: int = setting("of the masks", 0, minimum=0)
    racing: bool = setting("whether to give up hopeless candidates early", False)


@dataclass(frozen=True)
class Data:
    """Where the held-out text lies."""

    directory: str = setting("a directory that `prepare` wrote", "")


@dataclass(frozen=True)
class SearchExperiment:
    """The resolved configuration of a search."""

    algorithm: Algorithm
    space: Space
    scoring: Scoring
    data: Data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="data directory; its held-out part"
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        required=True,
        help="where everything is written; run again with the same to resume",
    )
    for field in dataclasses.fields(Algorithm):
        if field.name in ("initial", "suggest"):
            continue
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            choices=field.metadata["choices"],
            help=f"{field.metadata['help']} (default: {field.default})",
        )
    parser.add_argument(
        "--initial",
        nargs="+",
        default=[],
        metavar="SPEC",
        help="architectures for the first generation, beside random ones",
    )
    parser.add_argument(
        "--suggest",
        action="store_true",
        help="offer every generation the best string of the regression on letters",
    )
    parser.add_argument(
        "--letters", default="", help="layer types (default: those of the supernet)"
    )
    parser.add_argument(
        "--pattern",
        default="",
        help="fixed layers: a letter or ? for each, for example cc????????s",
    )
    parser.add_argument(
        "--max-params", type=float, metavar="N", help="the same as params<=N"
    )
    parser.add_argument(
        "--max-latency-ms", type=float, metavar="X", help="the same as latency_ms<=X"
    )
    parser.add_argument(
        "--latency-table", type=Path, metavar="FILE", help="what `latency` wrote"
    )
    costs = "; ".join(f"{name}: {meaning}" for name, meaning in COSTS.items())
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="NAME<=NUMBER",
        help=f"may be repeated. {costs}",
    )
    parser.add_argument(
        "--fitness",
        choices=FITNESS,
        default="loss",
        help="what ranks candidates: loss or accuracy at the positions that show "
        "[MASK], or accuracy_all, over all predicted positions, as in the paper "
        "(default: loss)",
    )
    parser.add_argument(
        "--examples", type=int, default=0, help="held-out examples; 0 takes all"
    )
    parser.add_argument(
        "--mask-seed", type=int, default=0, help="of the masks (default: 0)"
    )
    parser.add_argument(
        "--racing",
        action="store_true",
        help="give up candidates that are known to miss the top k",
    )
    parser.add_argument(
        "--batch-size", type=int, default=32, help="moves no score (default: 32)"
    )
    parser.add_argument(
        "--score-cache",
        type=Path,
        metavar="FILE",
        help="scores to share between searches (default: in the run directory)",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN_DIR",
        help="other searches to draw into the same picture",
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        help="devices that the held-out batches are split over; moves no score",
    )
    parser.add_argument(
        "--logical-cpus",
        type=int,
        default=1,
        help="CPU devices for `mirrored` without GPUs",
    )
    parser.add_argument(
        "--state-memory-mb",
        type=int,
        default=1024,
        help="for hidden states of the best candidates that the next generation's "
        "begin with (default: 1024)",
    )


def from_arguments(arguments: argparse.Namespace) -> SearchExperiment:
    """Gathers the options into the configuration that the run directory keeps."""
    limits = limits_of(
        arguments.constraint, arguments.max_params, arguments.max_latency_ms
    )
    names = [field.name for field in dataclasses.fields(Algorithm)]
    algorithm = {name: getattr(arguments, name) for name in names}
    algorithm["initial"] = ",".join(arguments.initial)
    table = arguments.latency_table
    return SearchExperiment(
        algorithm=Algorithm(**algorithm),
        space=Space(
            letters=arguments.letters,
            pattern=arguments.pattern,
            constraints=",".join(
                f"{name}<={limit!r}" for name, limit in limits.items()
            ),
            latency_table="" if table is None else str(table.absolute()),
        ),
        scoring=Scoring(
            supernet=str(arguments.supernet.absolute()),
            fitness=arguments.fitness,
            examples=arguments.examples,
            mask_seed=arguments.mask_seed,
            racing=arguments.racing,
        ),
        data=Data(directory=str(arguments.data.absolute())),
    )
