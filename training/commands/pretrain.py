"""The command ``pretrain``: its arguments."""

import argparse
from typing import Any

from training.pretraining import experiment
from training.run.flags import add_stage_arguments, overrides_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(parser, experiment.PretrainExperiment, experiment.FLAGS)


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.pretraining.pretrain import run

    overrides = overrides_of(arguments, experiment.FLAGS)
    return run(experiment.load_pretrain(arguments.config, overrides), arguments.run_dir)
