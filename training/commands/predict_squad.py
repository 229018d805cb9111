"""The command ``predict-squad``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from common.command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("--model", type=Path, help="model directory of `finetune`")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="questions: JSON of SQuAD, or a table (tsv, csv, jsonl)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write the predictions"
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="X",
        help="score of no answer above which a question is left unanswered (default: "
        "the best one on dev when the model was trained)",
    )
    for name in ("question", "context", "answer"):
        parser.add_argument(
            f"--{name}-column",
            default=name,
            metavar="NAME",
            help=f"of a table: column of the {name}s (default: {name})",
        )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="DIR",
        help="validate predictions against the questions and do nothing else",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.finetuning import squad_submission
    from training.finetuning.question_tables import QuestionOptions

    columns = QuestionOptions(
        arguments.question_column,
        arguments.context_column,
        arguments.answer_column,
        answered=False,
    )
    if arguments.check is not None:
        return squad_submission.check(arguments.check, arguments.data, columns)
    if arguments.model is None or arguments.output is None:
        raise UsageError("expected --model DIR and --output DIR, or --check DIR")
    return squad_submission.run(
        arguments.model,
        arguments.data,
        arguments.output,
        arguments.threshold,
        columns,
    )
