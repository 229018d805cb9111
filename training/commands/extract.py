"""The command ``extract``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from training.run.arguments import parse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--architecture", required=True, metavar="SPEC", help="the path to take out"
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="model directory to write"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing --output"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="nothing is drawn; accepted as everywhere"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.pretraining.extract import run

    return run(
        arguments.supernet,
        parse(arguments.architecture),
        arguments.output,
        overwrite=arguments.overwrite,
    )
