"""The command ``glue-score``: its arguments."""

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "run_dirs",
        type=Path,
        nargs="+",
        metavar="RUN_DIR",
        help="finished run directories of `finetune`, one a task",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.finetuning.glue_score import run

    return run(arguments.run_dirs)
