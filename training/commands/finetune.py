"""The command ``finetune``: its arguments."""

import argparse
from typing import Any

from common.arguments import at_least
from training.finetuning import experiment
from training.run.flags import add_stage_arguments, overrides_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(parser, experiment.FinetuneExperiment, experiment.FLAGS)
    parser.add_argument(
        "--official",
        action="store_true",
        help="what the official code does where the defaults differ: "
        f"{', '.join(experiment.OFFICIAL)}; other options win",
    )
    parser.add_argument(
        "--processes",
        type=at_least(1),
        default=1,
        metavar="N",
        help="train so many seeds at the same time; it changes no value (default: 1)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    overrides = overrides_of(arguments, experiment.FLAGS)
    if arguments.official:
        overrides = [*experiment.OFFICIAL, *overrides]
    settings = experiment.load(arguments.config, overrides)

    from training.finetuning.stage import run

    return run(settings, arguments.run_dir, arguments.processes)
