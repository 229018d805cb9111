"""What people look at when a job is done: a table, pictures, the worst mistakes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common.figures import new_figure, save_figure
from training.finetuning.targets import Array, Targets

_MOST_MISTAKES = 50
_MOST_NAMED_CLASSES = 20


def table_of_runs(runs: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Returns a table in Markdown: one row for each seed."""
    lines = [f"| seed | {metric} | above guessing (p) | remarks |", "|---|---|---|---|"]
    for run in runs:
        value = run.get(metric)
        shown = "undefined" if value is None else f"{value:.4f}"
        p = run.get("above_majority_p")
        remarks = [
            *(["constant predictions"] if run.get("degenerate") else []),
            *(["once more at half the rate"] if run.get("retried") else []),
            *([" ".join(run["error"].split())] if "error" in run else []),
        ]
        lines.append(
            f"| {run['seed']} | {'failed' if 'error' in run else shown} | "
            f"{'' if p is None else f'{p:.2g}'} | {', '.join(remarks)} |"
        )
    return "\n".join(lines) + "\n"


def draw_runs(
    values: Sequence[float], metric: str, title: str, line: float | None, file: Path
) -> None:
    """Draws a box plot over the runs, each run a point.

    Args:
        values: the figure of every run.
        metric: its name.
        title: what stands above.
        line: what guessing scores, or None.
        file: the PNG to write.
    """
    figure, (axis,) = new_figure((3.6, 3.6))
    axis.boxplot([list(values)], widths=0.4, showfliers=False)
    spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
    axis.plot(1 + np.asarray(spread), values, "o", color="#0072B2", markersize=4)
    if line is not None:
        axis.axhline(line, color="#D55E00", linestyle="--", linewidth=1)
        axis.annotate("guessing the majority", (0.52, line), fontsize=7, va="bottom")
    axis.set_ylabel(metric)
    axis.set_xticks([1], [told_runs(len(values))])
    axis.grid(alpha=0.3, axis="y")
    save_figure(figure, file, title)


def told_runs(count: int) -> str:
    """Returns ``"1 run"`` or ``"3 runs"``."""
    return f"{count} run" if count == 1 else f"{count} runs"


def draw_confusion(
    matrix: Sequence[Sequence[int]], labels: Sequence[str], file: Path
) -> None:
    """Draws a confusion matrix: rows are the true classes, in shares of the row."""
    counts = np.asarray(matrix, float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = min(12.0, 2.5 + 0.5 * len(labels))
    figure, (axis,) = new_figure((size + 0.6, size))
    image = axis.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    if len(labels) <= _MOST_NAMED_CLASSES:
        names = [label if len(label) < 20 else f"{label[:18]}..." for label in labels]
        axis.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        for row, column in np.ndindex(counts.shape):
            axis.text(
                column,
                row,
                f"{int(counts[row, column])}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if shares[row, column] > 0.6 else "black",
            )
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    figure.colorbar(image, ax=axis, shrink=0.8)
    save_figure(figure, file, "Confusion on dev")


def mistakes(
    targets: Targets, logits: Array, values: Array, texts: Sequence[tuple[str, ...]]
) -> str:
    """Returns a TSV of the mistakes that the model was surest of, surest first.

    Args:
        targets: of the task.
        logits: (N, C).
        values: the true values.
        texts: the N examples.

    Returns:
        Columns score, label, predicted and the texts, in which white space is single
        spaces. The score is the probability of the prediction; for numbers, how far
        it is off.
    """
    predicted = targets.predicted(logits)
    if targets.kind == "regression":
        sureness = np.abs(predicted - values)
        wrong = np.flatnonzero(sureness > 0)
        names = [f"{value:g}" for value in values]
        guesses = [f"{value:.4g}" for value in predicted]
    else:
        odds = probabilities(targets, logits)
        if targets.kind == "classification":
            wrong = np.flatnonzero(predicted != values)
            sureness = odds.max(axis=-1)
            names = [targets.labels[int(value)] for value in values]
            guesses = [targets.labels[int(value)] for value in predicted]
        else:
            true = values > 0.5
            wrong = np.flatnonzero((predicted != true).any(axis=-1))
            sureness = np.abs(odds - true).max(axis=-1)
            names = [_named(row, targets.labels) for row in true]
            guesses = [_named(row, targets.labels) for row in predicted]
    worst = wrong[np.argsort(-sureness[wrong], kind="stable")][:_MOST_MISTAKES]
    columns = ["text", "text_pair"][: len(texts[0])]
    lines = ["\t".join(["score", "label", "predicted", *columns])]
    for row in worst:
        cells = [names[row], guesses[row], *texts[row]]
        told = (" ".join(cell.split()) for cell in cells)
        lines.append("\t".join([f"{sureness[row]:.4f}", *told]))
    return "\n".join(lines) + "\n"


def probabilities(targets: Targets, logits: Array) -> Array:
    """Returns probabilities (N, C): softmax over classes, or a sigmoid for each."""
    wide = logits.astype(np.float64)
    if targets.kind == "multi_label":
        return 1 / (1 + np.exp(-wide))
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _named(row: Array, labels: Sequence[str]) -> str:
    return ",".join(label for bit, label in zip(row, labels, strict=True) if bit)
