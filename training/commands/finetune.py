"""The command ``finetune``: its arguments."""

import argparse
from typing import Any

from training.finetuning import experiment as finetune_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    finetune_experiment.add_arguments(parser)


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.finetuning.stage import run

    return run(finetune_experiment.load(arguments), arguments.run_dir)
