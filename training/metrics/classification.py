"""Accuracy, and whether a classifier tells classes apart at all."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def accuracy(predicted: ArrayLike, true: ArrayLike) -> float:
    """Returns the share of equal entries of two arrays of one length, in [0, 1].

    Raises:
        ValueError: if the lengths differ or are 0.
    """
    predicted, true = np.asarray(predicted), np.asarray(true)
    if predicted.shape != true.shape or predicted.size == 0:
        raise ValueError(
            "`predicted` and `true` must have one shape and at least one entry. "
            f"Received: shapes {predicted.shape} and {true.shape}"
        )
    return float(np.mean(predicted == true))


def is_degenerate(predicted: ArrayLike) -> bool:
    """Returns whether one class is predicted for everything."""
    return len(np.unique(np.asarray(predicted))) == 1


def majority_share(labels: Sequence[object]) -> float:
    """Returns the share of the most frequent label: what guessing it would score."""
    return Counter(labels).most_common(1)[0][1] / len(labels)
