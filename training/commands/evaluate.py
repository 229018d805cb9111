"""The command ``evaluate``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from command_line import UsageError
from training.loop.batches import HELD_OUT_SEED
from training.run.arguments import parse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--data", required=True, help="data directory whose held-out part scores"
    )
    parser.add_argument(
        "--architecture",
        nargs="+",
        default=[],
        metavar="SPEC",
        help="architecture strings or names",
    )
    parser.add_argument(
        "--random",
        type=int,
        default=0,
        metavar="N",
        help="so many random paths besides, and their losses by letter and depth",
    )
    parser.add_argument(
        "--batch-size", type=int, default=32, help="moves no score (default: 32)"
    )
    parser.add_argument(
        "--examples", type=int, default=0, help="held-out examples; 0 takes all"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=HELD_OUT_SEED,
        help="of the masks (default: those of `search` and of the validation)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.scoring.evaluate import run

    architectures = [parse(spec) for spec in arguments.architecture]
    if not architectures and arguments.random < 1:
        raise UsageError("expected --architecture SPEC..., --random N, or both")
    if arguments.batch_size < 1 or arguments.examples < 0:
        raise UsageError(
            "expected --batch-size from 1 and --examples from 0, found "
            f"{arguments.batch_size} and {arguments.examples}"
        )
    return run(
        arguments.supernet,
        arguments.data,
        architectures,
        batch_size=arguments.batch_size,
        examples=arguments.examples,
        seed=arguments.seed,
        random=arguments.random,
    )
