"""The command ``search``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from common.arguments import at_least, positive
from common.command_line import UsageError
from training.run.flags import add_stage_arguments, overrides_of
from training.search.constraints import COSTS, limits_of
from training.search.experiment import FLAGS, STRATEGIES, SearchExperiment, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(parser, SearchExperiment, FLAGS)
    costs = "; ".join(f"{name}: {meaning}" for name, meaning in COSTS.items())
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="NAME<=NUMBER",
        help=f"may be repeated. {costs} (--set space.constraints)",
    )
    parser.add_argument(
        "--max-params", type=positive, metavar="N", help="the same as params<=N"
    )
    parser.add_argument(
        "--max-latency-ms", type=positive, metavar="X", help="the same as latency_ms<=X"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN_DIR",
        help="other searches to draw into the same picture",
    )
    execution = parser.add_argument_group(
        "how it runs", "These move no score, and may differ when a search goes on."
    )
    execution.add_argument(
        "--batch-size",
        type=at_least(1),
        default=32,
        metavar="N",
        help="held-out examples at once (default: 32)",
    )
    execution.add_argument(
        "--score-cache",
        type=Path,
        metavar="FILE",
        help="scores to share between searches (default: in the run directory)",
    )
    execution.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        help="devices that the held-out batches are split over",
    )
    execution.add_argument(
        "--logical-cpus",
        type=at_least(1),
        default=1,
        metavar="N",
        help="CPU devices for `mirrored` without GPUs",
    )
    execution.add_argument(
        "--state-memory-mb",
        type=at_least(0),
        default=1024,
        metavar="N",
        help="for hidden states of the best candidates that the next generation's "
        "begin with (default: 1024)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.search.stage import Execution, run

    limits = limits_of(
        arguments.constraint, arguments.max_params, arguments.max_latency_ms
    )
    experiment = load(arguments.config, overrides_of(arguments, FLAGS), limits)
    if experiment.scoring.racing and arguments.score_cache is not None:
        raise UsageError(
            "--score-cache: a race needs every candidate's examples, so --racing "
            "neither reads nor writes a cache of scores"
        )
    return run(
        experiment,
        arguments.run_dir,
        execution=Execution(
            batch_size=arguments.batch_size,
            score_cache=arguments.score_cache,
            strategy=arguments.strategy,
            logical_cpus=arguments.logical_cpus,
            state_memory_bytes=arguments.state_memory_mb << 20,
        ),
        compare=arguments.compare,
    )
