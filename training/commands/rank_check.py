"""The command ``rank-check``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--second-supernet",
        type=Path,
        help="run directory of a supernet of another seed, to compare the two",
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="data directory to train and score on"
    )
    parser.add_argument(
        "--architectures", type=int, default=20, help="how many, K (default: 20)"
    )
    parser.add_argument(
        "--steps", type=int, required=True, help="of each training from scratch"
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        help="where everything is written; run again to resume "
        "(default: rank_check in the supernet's)",
    )
    parser.add_argument(
        "--letter-sets",
        default="",
        help="sets of letters to draw from, separated by commas (default: all the "
        "supernet's, for half of the architectures, and every pair)",
    )
    parser.add_argument(
        "--training-seeds",
        type=int,
        default=2,
        help="trainings of each; the second gives the noise ceiling (default: 2)",
    )
    parser.add_argument(
        "--examples", type=int, default=0, help="held-out examples; 0 takes all"
    )
    parser.add_argument(
        "--batch-size", type=int, default=0, help="of training; 0: the supernet's"
    )
    parser.add_argument(
        "--learning-rate", type=float, default=0.0, help="peak; 0: the supernet's"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the architectures (default: 0)"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.studies.rank_check import run

    for name, least in (("architectures", 2), ("steps", 1), ("training_seeds", 1)):
        if getattr(arguments, name) < least:
            raise UsageError(
                f"--{name.replace('_', '-')} must be at least {least}, "
                f"found {getattr(arguments, name)}"
            )
    if min(arguments.examples, arguments.batch_size, arguments.seed) < 0:
        raise UsageError("--examples, --batch-size and --seed must be 0 or more")
    return run(arguments)
