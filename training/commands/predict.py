"""The command ``predict``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from common.labelled_tables.examples import TableOptions
from common.labelled_tables.table import FORMAT_CHOICES, QUOTING_CHOICES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--model", type=Path, required=True, help="model directory of `finetune`"
    )
    parser.add_argument(
        "--input",
        type=Path,
        required=True,
        metavar="FILE",
        help="a table (tsv, csv, jsonl), or .txt with a text on each line",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE.tsv", help="where to write"
    )
    parser.add_argument("--text-column", default="text", help="default: text")
    parser.add_argument(
        "--pair-column", help="second texts (default: text_pair where there is one)"
    )
    parser.add_argument("--format", choices=FORMAT_CHOICES, default="auto")
    parser.add_argument("--quoting", choices=QUOTING_CHOICES, default="auto")
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="leave out rows that are not as expected, and count them",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.finetuning.predict import run

    options = TableOptions(
        text_column=arguments.text_column,
        pair_column=arguments.pair_column,
        label_column=None,
        format=arguments.format,
        quoting=arguments.quoting,
        skip_bad_rows=arguments.skip_bad_rows,
    )
    return run(arguments.model, arguments.input, arguments.output, options)
