"""``python -m export onnx``: writes an ONNX graph with its tokenizer and labels."""

import argparse
from typing import Any

from common.arguments import positive
from common.command_line import UsageError
from export.commands.options import (
    add_model_option,
    add_pairs_option,
    pairs,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``onnx``."""
    add_model_option(parser)
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="the new directory"
    )
    parser.add_argument(
        "--opset",
        type=int,
        help="ONNX operator set (default 20, the first with a GELU; 18 for models with "
        "layers of your own)",
    )
    add_pairs_option(parser)
    parser.add_argument(
        "--raw-text",
        action="store_true",
        help="refused: see the message for what to use instead",
    )
    parser.add_argument(
        "--tolerance",
        type=positive,
        metavar="X",
        help="largest difference of scores from Keras (default: by the model's own "
        "rounding noise, at most 1e-4)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Exports and returns the result."""
    if arguments.raw_text:
        raise UsageError(
            "--raw-text: ONNX has no operators for this tokenizer. Expected an export "
            "without it: lvbert-runtime (serving/onnx_runtime.py) turns raw "
            "text into scores"
        )
    from export.model_directory import load_model, read_provenance

    model = load_model(arguments.model)
    from export.onnx_graph import export_onnx

    options = {} if arguments.tolerance is None else {"tolerance": arguments.tolerance}
    return export_onnx(
        model,
        arguments.output,
        arguments.opset,
        pairs=pairs(arguments),
        provenance=read_provenance(arguments.model),
        **options,
    )
