"""The command ``predict-glue``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from common.command_line import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="TASK=DIR",
        help="model directory of `finetune` for a task; repeat it for every task",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the GLUE archive")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write files and archive"
    )
    parser.add_argument(
        "--fill",
        action="store_true",
        help="one answer for all rows of tasks without a model or a test file",
    )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="PATH",
        help="validate a submission (zip or directory) and do nothing else",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.finetuning import glue_submission
    from training.finetuning.tasks import GLUE

    if arguments.check is not None:
        return glue_submission.check(arguments.check)
    if arguments.data is None or arguments.output is None or not arguments.model:
        raise UsageError("expected --model TASK=DIR..., --data DIR and --output DIR")
    models = {}
    for given in arguments.model:
        task, equals, directory = given.partition("=")
        if task not in GLUE or not equals or not directory:
            raise UsageError(
                f"--model {given}: expected TASK=DIR with one of {', '.join(GLUE)}"
            )
        models[task] = Path(directory)
    return glue_submission.run(
        models, arguments.data, arguments.output, fill=arguments.fill
    )
