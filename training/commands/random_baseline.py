"""The command ``random-baseline``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet",
        type=Path,
        help="run directory of a supernet, whose sizes and data are taken",
    )
    parser.add_argument(
        "--config",
        type=Path,
        help="the same from a configuration of `supernet`, which need not be trained",
    )
    parser.add_argument("--data", type=Path, help="data directory (default: theirs)")
    parser.add_argument(
        "--run-dir",
        type=Path,
        required=True,
        help="where everything is written; run again with the same to resume",
    )
    parser.add_argument(
        "--architectures", type=int, default=5, help="how many (default: 5)"
    )
    parser.add_argument(
        "--letters", default="", help="layer types (default: those of the supernet)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="of each training (default: the supernet's)",
    )
    parser.add_argument(
        "--objective",
        choices=("electra", "mlm"),
        default="electra",
        help="what to train by; compared is the held-out masked-LM loss at [MASK], of "
        "electra its generator's (default: electra)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=0, help="0: the supernet's (default)"
    )
    parser.add_argument(
        "--learning-rate", type=float, default=0.0, help="0: 5e-4, the paper's"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of architectures and training (default: 0)"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.studies.random_baseline import run

    if (arguments.supernet is None) == (arguments.config is None):
        raise UsageError("expected either --supernet or --config")
    if arguments.architectures < 1:
        raise UsageError(
            f"--architectures must be at least 1, found {arguments.architectures}"
        )
    if min(arguments.steps, arguments.batch_size, arguments.seed) < 0:
        raise UsageError("--steps, --batch-size and --seed must be 0 or more")
    return run(arguments)
