"""The searches of one command: one for each method and seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lvbert_tf.search.evolution import Search
from training.pretraining.experiment import SupernetExperiment
from training.scoring.score import Scorer
from training.search.experiment import SearchExperiment
from training.search.log import SearchLog
from training.search.loop import search_on
from training.search.space import make_search, make_space


@dataclass(frozen=True)
class Job:
    """One search with its log.

    Attributes:
        method: evolution or random.
        seed: of its randomness.
        search: the algorithm.
        log: its state and lines.
        folder: where they lie: the run directory, or a folder of it where the command
            runs several searches.
    """

    method: str
    seed: int
    search: "Search"
    log: SearchLog
    folder: Path

    @property
    def label(self) -> str:
        """What tells it from the others."""
        return f"{self.method}_{self.seed}"


def make_jobs(
    options: SearchExperiment, supernet: "SupernetExperiment", run_dir: Path
) -> list[Job]:
    """Returns the searches that the options ask for; nothing is written yet.

    Args:
        options: the search's configuration.
        supernet: what is searched.
        run_dir: where the searches will write.

    Raises:
        UsageError: if an option is not allowed.
    """
    algorithm = options.algorithm
    space = make_space(options.space, supernet, options.data.directory)
    methods: tuple[str, ...] = ("evolution", "random")
    if algorithm.method != "both":
        methods = (algorithm.method,)
    keys = [
        (method, algorithm.seed + offset)
        for method in methods
        for offset in range(algorithm.seeds)
    ]
    jobs = []
    for method, seed in keys:
        folder = (
            run_dir if len(keys) == 1 else run_dir / "searches" / f"{method}_{seed}"
        )
        search = make_search(algorithm, space, method, seed)
        log = SearchLog(folder, options.scoring.fitness)
        jobs.append(Job(method, seed, search, log, folder))
    return jobs


def run_jobs(
    jobs: Sequence[Job], scorer: "Scorer", *, suggest: bool = False, **hooks: Any
) -> None:
    """Runs every search to its end, one after the other.

    Args:
        jobs: resumed, see `SearchLog.resume`.
        scorer: scores for all of them.
        suggest: see `search_on`.
        **hooks: `on_generation` and `layer_evaluations`, likewise.
    """
    for job in jobs:
        label = f"{job.method} search" + (f", seed {job.seed}" if len(jobs) > 1 else "")
        search_on(job.search, scorer, job.log, label=label, suggest=suggest, **hooks)
