"""Figures of classifiers, and whether they are better than guessing."""

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

SIGNIFICANT = 0.05
"""A p-value below it counts as better than guessing."""


def accuracy(predicted: ArrayLike, true: ArrayLike) -> float:
    """Returns the share of equal entries of two arrays of one length, in [0, 1].

    Raises:
        ValueError: if the lengths differ or are 0.
    """
    predicted, true = _pair(predicted, true)
    return float(np.mean(predicted == true))


def matthews_correlation(predicted: ArrayLike, true: ArrayLike) -> float:
    """Returns Matthews' correlation, in [-1, 1]; 0 for a constant side, as officially.

    Raises:
        ValueError: if the lengths differ or are 0.
    """
    from sklearn.metrics import matthews_corrcoef

    predicted, true = _pair(predicted, true)
    if len(np.unique(predicted)) == 1 or len(np.unique(true)) == 1:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(matthews_corrcoef(true, predicted))


def f1_of_class(predicted: ArrayLike, true: ArrayLike, positive: object) -> float:
    """Returns the F1 of one class, in [0, 1]; 0 where it is neither there nor found.

    The official code of LV-BERT counts gold positives among predicted ones only, so
    that its F1 is a precision; this is the real F1.
    """
    from sklearn.metrics import f1_score

    predicted, true = _pair(predicted, true)
    return float(f1_score(true == positive, predicted == positive, zero_division=0))


def multi_label_figures(
    predicted: NDArray[np.bool_], true: NDArray[np.bool_]
) -> dict[str, float]:
    """Returns F1 over all cells, mean F1 of classes, and the share of exact rows.

    Args:
        predicted: bool (N, C).
        true: bool (N, C).
    """
    from sklearn.metrics import f1_score

    return {
        "micro_f1": float(f1_score(true, predicted, average="micro", zero_division=0)),
        "macro_f1": float(f1_score(true, predicted, average="macro", zero_division=0)),
        "exact_match": float((predicted == true).all(axis=-1).mean()),
    }


def confusion(
    predicted: Sequence[int], true: Sequence[int], num_classes: int
) -> list[list[int]]:
    """Returns how often class i (a row) was taken for class j (a column)."""
    counts = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(counts, (np.asarray(true), np.asarray(predicted)), 1)
    matrix: list[list[int]] = counts.tolist()
    return matrix


def is_degenerate(predicted: ArrayLike) -> bool:
    """Returns whether the same is predicted for everything."""
    return len(np.unique(np.asarray(predicted), axis=0)) == 1


def majority_share(labels: Sequence[object]) -> float:
    """Returns the share of the most frequent label: what guessing it would score."""
    return Counter(labels).most_common(1)[0][1] / len(labels)


def above_majority_p(predicted: ArrayLike, true: ArrayLike) -> float:
    """Returns how probable so many hits are for one who guesses the majority.

    The p-value of the exact binomial test, one-sided, of the hits against the share of
    the most frequent label. One label everywhere cannot be beaten: 1.
    """
    from scipy.stats import binomtest

    predicted, true = _pair(predicted, true)
    share = majority_share(true.tolist())
    if share == 1.0:
        return 1.0
    hits = int((predicted == true).sum())
    return float(binomtest(hits, len(true), share, alternative="greater").pvalue)


def _pair(predicted: ArrayLike, true: ArrayLike) -> tuple[NDArray, NDArray]:  # type: ignore[type-arg]
    predicted, true = np.asarray(predicted), np.asarray(true)
    if predicted.shape != true.shape or predicted.size == 0:
        raise ValueError(
            "`predicted` and `true` must have one shape and at least one entry. "
            f"Received: shapes {predicted.shape} and {true.shape}"
        )
    return predicted, true
