"""``search``: finds the best architecture of a supernet (the paper's Algorithm 1)."""

import argparse
import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import UsageError
from training import experiment, settings
from training.run_directory import RunDirectory
from training.search_experiment import (
    SearchExperiment,
    add_arguments,
    from_arguments,
)

if TYPE_CHECKING:
    from training.distribution import Distribution
    from training.experiment import SupernetExperiment
    from training.scoring import Scorer
    from training.search_jobs import Job
    from training.supernet_scorer import SupernetScorer

__all__ = ["add_arguments", "main", "run"]

STAGE = "search"


@dataclasses.dataclass(frozen=True)
class Execution:
    """How a search runs, which moves none of its results.

    Attributes:
        batch_size: held-out examples at once.
        score_cache: file of scores; by default in the run directory.
        strategy: devices, see `training.distribution.set_up`.
        logical_cpus: CPU devices for `mirrored`.
        state_memory_bytes: see `SupernetScorer`.
    """

    batch_size: int = 32
    score_cache: Path | None = None
    strategy: str = "auto"
    logical_cpus: int = 1
    state_memory_bytes: int = 1 << 30


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    for name in ("batch_size", "logical_cpus", "seeds"):
        if getattr(arguments, name) < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} must be at least 1, "
                f"found {getattr(arguments, name)}"
            )
    if arguments.racing and arguments.score_cache is not None:
        raise UsageError(
            "--score-cache: a race needs every candidate's examples, so --racing "
            "neither reads nor writes a cache of scores"
        )
    return run(
        from_arguments(arguments),
        arguments.run_dir,
        execution=Execution(
            batch_size=arguments.batch_size,
            score_cache=arguments.score_cache,
            strategy=arguments.strategy,
            logical_cpus=arguments.logical_cpus,
            state_memory_bytes=max(0, arguments.state_memory_mb) << 20,
        ),
        compare=arguments.compare,
    )


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
        of the top k, `evaluations`, `seconds`, `finished` and more.

    Raises:
        UsageError: if supernet, data and options don't fit together.
    """
    execution = execution or Execution()
    source = RunDirectory.existing(
        Path(options.scoring.supernet), "--supernet", experiment.SUPERNET
    )
    supernet = experiment.load_supernet(source.config_file, [])
    trained_on: dict[str, str] = source.versions()["data"]

    from training.search_inputs import check_data, other_iterations
    from training.search_jobs import make_jobs

    others = other_iterations(compare)
    jobs = make_jobs(options, supernet, run_dir)
    identity = check_data(options.data.directory, supernet, trained_on)

    from training.distribution import set_up

    distribution = set_up(
        strategy=execution.strategy, logical_cpus=execution.logical_cpus
    )
    scorer, step = _make_scorer(
        options, supernet, identity["held_out_sha256"], execution, distribution
    )
    directory = RunDirectory.open(
        run_dir,
        settings.to_toml(options, STAGE),
        {**identity, "scores_sha256": scorer.identity},
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
            {"supernet_step": step, "others": others},
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
    from training.search_jobs import run_jobs
    from training.search_report import report

    chief = RunDirectory(run_dir)
    for job in jobs:
        job.log.resume(job.search, writes=distribution.is_chief)
    finished = chief.result()
    timing: dict[str, Any] = {}
    if finished is None:
        asked: Scorer = _remembering(options, scorer, execution, distribution, run_dir)
        timing = run_jobs(jobs, asked, suggest=options.algorithm.suggest)
    if not distribution.is_chief:
        return {"worker": distribution.worker, "run_dir": str(run_dir)}
    timing["layer_evaluations"] = scorer.walk.layer_evaluations
    result = report(
        options, supernet, jobs, run_dir, {**context, "timing": timing}, finished
    )
    return directory.write_result(result)


def _make_scorer(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    held_out_sha256: str,
    execution: Execution,
    distribution: "Distribution",
) -> tuple["SupernetScorer", int]:
    from training import supernet as supernet_stage
    from training.supernet_scorer import SupernetScorer

    with distribution.strategy.scope():
        trained = supernet_stage.load(Path(options.scoring.supernet))
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


def _remembering(
    options: SearchExperiment,
    scorer: "SupernetScorer",
    execution: Execution,
    distribution: "Distribution",
    run_dir: Path,
) -> "Scorer":
    """The scorer with a cache, or in a race."""
    from training.racing import RacingScorer
    from training.score_cache import CachedScorer

    if options.scoring.racing:
        return RacingScorer(scorer, options.algorithm.top_k)
    file = execution.score_cache or run_dir / "scores.jsonl"
    return CachedScorer(scorer, file, writes=distribution.is_chief)
