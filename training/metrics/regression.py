"""Figures of predicted numbers; what is undefined is None, with a reason."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from training.metrics.rank_correlation import spearman


def regression_figures(predicted: ArrayLike, true: ArrayLike) -> dict[str, Any]:
    """Returns `spearman`, `pearson`, `mean_squared_error`, and why one is undefined.

    Args:
        predicted: (N,) finite numbers.
        true: (N,) finite numbers.

    Returns:
        Correlations in [-1, 1], or None where one side is constant; then `undefined`
        says so.

    Raises:
        ValueError: if the shapes differ or a number is NaN.
    """
    a, b = np.asarray(predicted, np.float64), np.asarray(true, np.float64)
    figures: dict[str, Any] = {
        "spearman": spearman(a, b),
        "pearson": pearson(a, b),
        "mean_squared_error": float(np.mean((a - b) ** 2)),
    }
    if figures["pearson"] is None:
        side = "predictions" if np.ptp(a) == 0 else "labels"
        figures["undefined"] = f"correlations: all {side} are equal"
    return figures


def pearson(first: ArrayLike, second: ArrayLike) -> float | None:
    """Returns Pearson's correlation, or None where one side is constant."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    if scale <= 0.0 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float((a * b).sum() / scale)


def pearson_p(predicted: ArrayLike, true: ArrayLike) -> float:
    """Returns how probable such a positive correlation is where there is none.

    One-sided; 1 for a constant side, which cannot be told from guessing the mean.
    """
    from scipy.stats import pearsonr

    a, b = np.asarray(predicted, np.float64), np.asarray(true, np.float64)
    if len(a) < 3 or pearson(a, b) is None:
        return 1.0
    return float(pearsonr(a, b, alternative="greater").pvalue)
