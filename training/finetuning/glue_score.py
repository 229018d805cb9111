"""``glue-score``: the medians of some tasks, and the average that the paper prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from training.finetuning.experiment import FINETUNE
from training.metrics.glue_average import AVERAGED, glue_average
from training.run.directory import RunDirectory


def run(run_dirs: Sequence[Path]) -> dict[str, Any]:
    """Collects the results of finished runs.

    Returns:
        `scores` (task to its median, in percent), `average` (None while a task is
        missing) and `missing`.

    Raises:
        UsageError: if a directory holds no finished run of a task, or two hold one.
    """
    scores: dict[str, float] = {}
    for path in run_dirs:
        result = RunDirectory.existing(path, "RUN_DIR", FINETUNE).result()
        if result is None:
            raise UsageError(f"{path}: expected a finished run, found none")
        task = result["task"]
        if task in scores:
            raise UsageError(f"{path}: expected one run of {task}, found another")
        scores[task] = 100.0 * result["median"]
    return {
        "scores": scores,
        "average": glue_average(scores),
        "missing": [task for task in AVERAGED if task not in scores],
    }
