"""The command ``random-baseline``: its arguments."""

import argparse
from typing import Any

from training.run import settings
from training.run.flags import add_stage_arguments, overrides_of
from training.studies.experiment import (
    RANDOM_BASELINE,
    RANDOM_BASELINE_FLAGS,
    RandomBaselineExperiment,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(
        parser,
        RandomBaselineExperiment,
        RANDOM_BASELINE_FLAGS,
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.studies.random_baseline import run

    overrides = overrides_of(arguments, RANDOM_BASELINE_FLAGS)
    configuration = settings.load(
        RandomBaselineExperiment, RANDOM_BASELINE, arguments.config, overrides
    )
    return run(configuration, arguments.run_dir)
