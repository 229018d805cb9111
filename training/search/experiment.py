"""What a search can configure, and the short forms of its settings."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.run import settings
from training.run.flags import Flag
from training.run.settings import Override, setting
from training.scoring.score import FITNESS
from training.search.constraints import limits_of

SEARCH = "search"
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

    supernet: str = setting("run directory of the supernet")
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

    directory: str = setting("a directory that `prepare` wrote")


@dataclass(frozen=True)
class SearchExperiment:
    """The resolved configuration of a search."""

    algorithm: Algorithm
    space: Space
    scoring: Scoring
    data: Data


FLAGS = (
    Flag("--supernet", "scoring.supernet", path=True, metavar="RUN_DIR"),
    Flag("--data", "data.directory", path=True, metavar="DIR"),
    *(
        Flag(f"--{field.name.replace('_', '-')}", f"algorithm.{field.name}")
        for field in dataclasses.fields(Algorithm)
        if field.name != "initial"
    ),
    Flag("--initial", "algorithm.initial", many=True, metavar="SPEC"),
    Flag("--letters", "space.letters"),
    Flag("--pattern", "space.pattern", metavar="PATTERN"),
    Flag("--latency-table", "space.latency_table", path=True, metavar="FILE"),
    Flag("--fitness", "scoring.fitness"),
    Flag("--examples", "scoring.examples"),
    Flag("--mask-seed", "scoring.mask_seed"),
    Flag("--racing", "scoring.racing"),
)
"""Short forms of settings."""


def load(
    file: Path | None,
    overrides: Sequence[str | Override],
    limits: Mapping[str, float],
) -> SearchExperiment:
    """Reads a search's configuration; see `training.run.settings.load`.

    Args:
        file: a TOML file.
        overrides: what ``--set`` and flags change.
        limits: upper limits of costs; of two, with those of the file, the tighter
            holds.
    """
    experiment = settings.load(SearchExperiment, SEARCH, file, overrides)
    given = [text for text in experiment.space.constraints.split(",") if text.strip()]
    given += [f"{name}<={limit!r}" for name, limit in limits.items()]
    both = limits_of(given, None, None)
    constraints = ",".join(f"{name}<={limit!r}" for name, limit in both.items())
    space = dataclasses.replace(experiment.space, constraints=constraints)
    return dataclasses.replace(experiment, space=space)
