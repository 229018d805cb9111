"""``search``: finds the best architecture of a supernet (the paper's Algorithm 1)."""

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.hashes import file_sha256
from training.pretraining import experiment, trained_supernet
from training.pretraining.experiment import SupernetExperiment
from training.run import settings
from training.run.devices import Distribution, set_up
from training.run.directory import RunDirectory
from training.scoring.cache import CachedScorer
from training.scoring.inputs import check_data
from training.scoring.racing import RacingScorer
from training.scoring.score import Scorer
from training.scoring.supernet_doubts import SupernetDoubts
from training.scoring.supernet_scorer import SupernetScorer
from training.search.experiment import (
    SearchExperiment,
)
from training.search.jobs import Job, make_jobs, run_jobs
from training.search.log import other_iterations
from training.search.report import report

STAGE = "search"


@dataclasses.dataclass(frozen=True)
class Execution:
    """How a search runs, which moves none of its results.

    Attributes:
        batch_size: held-out examples at once.
        score_cache: file of scores; by default in the run directory.
        strategy: devices, see `training.run.devices.set_up`.
        logical_cpus: CPU devices for `mirrored`.
        state_memory_bytes: see `SupernetScorer`.
    """

    batch_size: int = 32
    score_cache: Path | None = None
    strategy: str = "auto"
    logical_cpus: int = 1
    state_memory_bytes: int = 1 << 30


def run(
    options: SearchExperiment,
    run_dir: Path,
    *,
    execution: Execution | None = None,
    compare: Sequence[Path] = (),
) -> dict[str, Any]:
    """Searches, or goes on where an earlier call stopped.

    Args:
        options: the configuration.
        run_dir: where everything is written.
        execution: devices and sizes that move no result.
        compare: run directories of other searches to draw beside this one.

    Returns:
        `best` (`architecture`, `accuracy`, `loss`, `standard_error`), `top`, the list
        of the top k, `fitness`, `unigram_loss`, `warnings`, `evaluations`, `seconds`,
        `finished` and more.

    Raises:
        UsageError: if supernet, data and options don't fit together.
        CommandError: if all candidates tie.
    """
    execution = execution or Execution()
    source = RunDirectory.existing(
        Path(options.scoring.supernet), "--supernet", experiment.SUPERNET
    )
    supernet = experiment.load_supernet(source.config_file, [])
    trained_on: dict[str, str] = source.versions()["data"]

    others = other_iterations(compare, options.scoring.fitness)
    jobs = make_jobs(options, supernet, run_dir)
    identity = check_data(options.data.directory, supernet, trained_on)

    distribution = set_up(
        strategy=execution.strategy, logical_cpus=execution.logical_cpus
    )
    scorer, step = _make_scorer(
        options, supernet, identity["held_out_sha256"], execution, distribution
    )
    directory = RunDirectory.open(
        run_dir,
        settings.to_toml(options, STAGE),
        {
            **identity,
            "scores_sha256": scorer.identity,
            "latency_table_sha256": _content_sha256(options.space.latency_table),
        },
        distribution.worker,
    )
    with contextlib.closing(directory):
        return _search(
            options,
            supernet,
            jobs,
            scorer,
            execution,
            distribution,
            directory,
            run_dir,
            {
                "supernet_step": step,
                "supernet_steps": supernet.run.steps,
                "others": others,
            },
        )


def _search(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    jobs: Sequence["Job"],
    scorer: "SupernetScorer",
    execution: Execution,
    distribution: "Distribution",
    directory: RunDirectory,
    run_dir: Path,
    context: dict[str, Any],
) -> dict[str, Any]:
    """Runs the jobs and reports; of several workers the first one writes."""
    chief = RunDirectory(run_dir)
    for job in jobs:
        job.log.resume(job.search, writes=distribution.is_chief)
    finished = chief.result()
    if finished is None:
        unigram_loss = scorer.unigram_loss()
        doubts = SupernetDoubts(
            unigram_loss, context["supernet_step"], context["supernet_steps"]
        )
        first = jobs[0].log  # if an earlier process scored its first generation
        doubts.look([first.scores[name] for name in first.first_generation])
        asked: Scorer = _remembering(options, scorer, execution, distribution, run_dir)
        run_jobs(
            jobs,
            asked,
            suggest=options.algorithm.suggest,
            on_generation=doubts.look,
            layer_evaluations=lambda: scorer.walk.layer_evaluations,
        )
        context = {
            **context,
            "unigram_loss": unigram_loss,
            "warnings": doubts.warnings,
        }
    if not distribution.is_chief:
        return {"worker": distribution.worker, "run_dir": str(run_dir)}
    result = report(options, supernet, jobs, run_dir, context, finished)
    return directory.write_result(result)


def _make_scorer(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    held_out_sha256: str,
    execution: Execution,
    distribution: "Distribution",
) -> tuple["SupernetScorer", int]:
    with distribution.strategy.scope():
        trained = trained_supernet.load(Path(options.scoring.supernet))
    scorer = SupernetScorer(
        trained,
        dataclasses.replace(
            supernet.data,
            directory=options.data.directory,
            validation_examples=options.scoring.examples,
        ),
        batch_size=execution.batch_size,
        seed=options.scoring.mask_seed,
        held_out_sha256=held_out_sha256,
        distribution=distribution,
        state_memory_bytes=execution.state_memory_bytes,
    )
    return scorer, trained.step


def _content_sha256(file: str) -> str:
    """Where a file lies is not what it is: its content is compared on a resume."""
    return file_sha256(Path(file)) if file else ""


def _remembering(
    options: SearchExperiment,
    scorer: "SupernetScorer",
    execution: Execution,
    distribution: "Distribution",
    run_dir: Path,
) -> "Scorer":
    """The scorer with a cache, or in a race."""
    if options.scoring.racing:
        return RacingScorer(
            scorer,
            options.algorithm.top_k,
            options.algorithm.iterations,
            fitness=options.scoring.fitness,
        )
    file = execution.score_cache or run_dir / "scores.jsonl"
    return CachedScorer(scorer, file, writes=distribution.is_chief)
