"""The command ``latency``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from common.command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--output", type=Path, required=True, help="JSON file for `search`"
    )
    parser.add_argument(
        "--batch", type=int, default=1, help="sequences at once (default: 1)"
    )
    parser.add_argument(
        "--sequence-length", type=int, default=128, help="tokens (default: 128)"
    )
    parser.add_argument(
        "--size",
        choices=("small", "medium", "base"),
        default="small",
        help="the paper's model size (default: small)",
    )
    parser.add_argument(
        "--letters", default="csf", help="layer types to measure (default: csf)"
    )
    parser.add_argument(
        "--repeats", type=int, default=30, help="measurements (default: 30)"
    )
    parser.add_argument(
        "--runtime",
        choices=("keras", "onnx", "onnx-int8"),
        default="keras",
        help="what the model will run on: TensorFlow, or what `python -m export onnx` "
        "and `quantize` make of it, on onnxruntime (default: keras)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help="threads for one call (default 0: as many as the runtime takes)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing --output"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of weights and inputs (default: 0)"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.studies.latency import run

    for name in ("batch", "sequence_length", "repeats"):
        if getattr(arguments, name) < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} must be at least 1, "
                f"found {getattr(arguments, name)}"
            )
    if arguments.threads < 0:
        raise UsageError(f"--threads must be at least 0, found {arguments.threads}")
    return run(
        arguments.output,
        batch=arguments.batch,
        sequence_length=arguments.sequence_length,
        size=arguments.size,
        letters=arguments.letters,
        repeats=arguments.repeats,
        overwrite=arguments.overwrite,
        seed=arguments.seed,
        runtime=arguments.runtime,
        threads=arguments.threads,
    )
