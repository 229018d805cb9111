"""The command ``evaluate``: its arguments."""

import argparse
from typing import Any

from training.run import settings
from training.run.flags import add_stage_arguments, overrides_of
from training.scoring.experiment import EVALUATE, EVALUATE_FLAGS, EvaluateExperiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(
        parser,
        EvaluateExperiment,
        EVALUATE_FLAGS,
        run_dir="where configuration and result are kept (default: nowhere)",
        run_dir_required=False,
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.scoring.evaluate import run

    overrides = overrides_of(arguments, EVALUATE_FLAGS)
    experiment = settings.load(
        EvaluateExperiment, EVALUATE, arguments.config, overrides
    )
    return run(experiment, arguments.run_dir)
