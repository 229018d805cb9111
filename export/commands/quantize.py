"""``python -m export quantize``: shrinks an ONNX artefact to 8-bit weights."""

import argparse
from pathlib import Path
from typing import Any

from common.arguments import at_least, not_negative
from common.command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``quantize``."""
    parser.add_argument(
        "--onnx", required=True, metavar="DIR", help="what `onnx` wrote"
    )
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="the new directory"
    )
    parser.add_argument(
        "--eval",
        required=True,
        metavar="FILE.tsv",
        help="labelled examples: a header naming text, label and, for pairs, text_pair",
    )
    parser.add_argument(
        "--max-drop",
        type=not_negative,
        default=1.0,
        metavar="POINTS",
        help="how far the metric may fall, in percentage points (default 1.0)",
    )
    parser.add_argument(
        "--method",
        choices=("dynamic", "static"),
        default="dynamic",
        help="dynamic: activations are scaled as they come (default); static: by "
        "constants, from the texts of --calibrate",
    )
    parser.add_argument(
        "--calibrate",
        metavar="FILE",
        help="your texts for --method static, one a line, of pairs two with a tab "
        "between (default: the first 256 examples of --eval)",
    )
    parser.add_argument(
        "--letters",
        default="auto",
        help="layers to quantise: letters such as sf, all, or auto (default): those "
        "that lose no time on this machine",
    )
    parser.add_argument(
        "--sequence-length",
        type=at_least(1),
        metavar="N",
        help="tokens of the text that latencies are measured with (default: the median "
        "of the examples)",
    )
    parser.add_argument(
        "--batch-size",
        type=at_least(1),
        default=32,
        help="examples at a time (default 32)",
    )
    parser.add_argument(
        "--max-examples",
        type=at_least(1),
        metavar="N",
        help="take only the first N examples",
    )
    parser.add_argument(
        "--reduce-range",
        action=argparse.BooleanOptionalAction,
        help="7-bit weights, for x86 CPUs without VNNI (default: as this CPU needs)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Quantises and returns the result."""
    if arguments.calibrate and arguments.method != "static":
        raise UsageError("--calibrate: only --method static is calibrated")
    if not Path(arguments.onnx).is_dir():
        raise UsageError(f"--onnx: no such directory: {arguments.onnx}")
    from export.quantization import quantize

    return quantize(
        arguments.onnx,
        arguments.output,
        arguments.eval,
        arguments.max_drop,
        method=arguments.method,
        calibration_file=arguments.calibrate,
        letters=arguments.letters,
        batch_size=arguments.batch_size,
        max_examples=arguments.max_examples,
        sequence_length=arguments.sequence_length,
        reduce_range=arguments.reduce_range,
    )
