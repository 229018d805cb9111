"""The GLUE score of the paper: the mean over its eight tasks."""

from collections.abc import Mapping

AVERAGED = ("cola", "mrpc", "mnli", "sst", "rte", "qnli", "qqp", "sts")
"""CoLA by Matthews' correlation, STS by Spearman's, the others by accuracy."""


def glue_average(scores: Mapping[str, float]) -> float | None:
    """Returns the mean of the eight tasks' figures, or None if one is missing.

    Args:
        scores: the figure of each task, all in one unit; other tasks do not count.
    """
    if any(scores.get(task) is None for task in AVERAGED):
        return None
    return sum(scores[task] for task in AVERAGED) / len(AVERAGED)
