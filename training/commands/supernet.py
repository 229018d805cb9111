"""The command ``supernet``: its arguments."""

import argparse
from typing import Any

from training.pretraining import experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    experiment.add_arguments(parser)


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.pretraining.supernet import run

    return run(
        experiment.load_supernet(arguments.config, experiment.overrides_of(arguments)),
        arguments.run_dir,
    )
