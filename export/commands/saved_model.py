"""``python -m export saved-model``: writes a version for TensorFlow Serving."""

import argparse
import sys
from pathlib import Path
from typing import Any

from common.arguments import not_negative, positive
from common.command_line import UsageError
from export.commands.options import (
    add_model_option,
    add_pairs_option,
    integers,
    pairs,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``saved-model``."""
    add_model_option(parser)
    parser.add_argument(
        "--output",
        required=True,
        metavar="BASE",
        help="the served model's folder; the version becomes BASE/NUMBER",
    )
    parser.add_argument(
        "--version",
        metavar="N",
        help="number of the version (default: the highest there, plus one)",
    )
    add_pairs_option(parser)
    parser.add_argument(
        "--warm-up",
        action=argparse.BooleanOptionalAction,
        help="write warm-up requests (default: where tensorflow-serving-api is "
        "installed)",
    )
    parser.add_argument(
        "--warm-up-batch-sizes",
        metavar="N,N",
        help="rows of the warm-up requests (default "
        "1,2,4,8,16,32,64: what serving/deploy/batching.config allows)",
    )
    parser.add_argument(
        "--truncated",
        action="store_true",
        help="answers to texts say which of them were cut: an output `truncated`",
    )
    parser.add_argument(
        "--scores-only",
        action="store_true",
        help="add a signature with one output, so that the row format gives plain "
        "lists of scores",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="what to compute in; bfloat16 is faster in batches on CPUs with AMX or "
        "AVX512-BF16, takes half the space, and needs --eval (default float32)",
    )
    parser.add_argument(
        "--eval",
        metavar="FILE.tsv",
        help="labelled examples that --precision bfloat16 is measured on, as for "
        "`quantize`",
    )
    parser.add_argument(
        "--max-drop",
        type=not_negative,
        default=1.0,
        metavar="POINTS",
        help="how far their metric may fall, in percentage points (default 1.0)",
    )
    parser.add_argument(
        "--model-name",
        metavar="NAME",
        help="name in the warm-up requests (default: that of BASE)",
    )
    parser.add_argument(
        "--allow-op",
        action="append",
        default=[],
        metavar="OP",
        help="an operation that your server is known to have; may be repeated",
    )
    parser.add_argument(
        "--tolerance",
        type=positive,
        metavar="X",
        help="largest difference of scores from Keras (default: by the model's own "
        "rounding noise, at most 1e-5)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Exports and returns the result."""
    from export.model_directory import load_model, read_provenance
    from export.publication import version_directory

    # What is wrong with the arguments shall not take a minute to say.
    version_directory(Path(arguments.output), arguments.version)
    options: dict[str, Any] = {}
    if arguments.warm_up_batch_sizes is not None:
        options["warm_up_batch_sizes"] = integers(
            arguments.warm_up_batch_sizes, "--warm-up-batch-sizes"
        )
    if arguments.tolerance is not None:
        options["tolerance"] = arguments.tolerance
    half = arguments.precision == "bfloat16"
    if half != (arguments.eval is not None):
        raise UsageError(
            "--eval: expected with --precision bfloat16, and only there. "
            f"Received: --precision {arguments.precision}"
        )
    model = load_model(arguments.model)
    from export.half_precision import bfloat16_flags
    from export.saved_model import HalfPrecision, export_saved_model

    if half:
        if not bfloat16_flags():
            print(
                "this CPU has neither AMX nor AVX512-BF16: bfloat16 will be slow here",
                file=sys.stderr,
            )
        options["half"] = HalfPrecision(
            load_model(arguments.model, dtype="bfloat16"),
            Path(arguments.eval),
            arguments.max_drop,
        )
    return export_saved_model(
        model,
        arguments.output,
        arguments.version,
        pairs=pairs(arguments),
        provenance=read_provenance(arguments.model),
        model_name=arguments.model_name,
        warm_up=arguments.warm_up,
        allowed_ops=arguments.allow_op,
        truncated=arguments.truncated,
        scores_only=arguments.scores_only,
        **options,
    )
