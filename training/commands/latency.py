"""The command ``latency``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from training.run import settings
from training.run.flags import add_stage_arguments, overrides_of
from training.studies.latency_experiment import (
    LATENCY,
    LATENCY_FLAGS,
    LatencyExperiment,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(
        parser,
        LatencyExperiment,
        LATENCY_FLAGS,
        run_dir="where the configuration, the versions, the result and, without "
        "--output, the table are written",
        run_dir_required=False,
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="JSON table for `search` (default: latency.json in --run-dir)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing --output"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.studies.latency import run

    overrides = overrides_of(arguments, LATENCY_FLAGS)
    configuration = settings.load(
        LatencyExperiment, LATENCY, arguments.config, overrides
    )
    return run(
        configuration,
        output=arguments.output,
        run_dir=arguments.run_dir,
        overwrite=arguments.overwrite,
    )
