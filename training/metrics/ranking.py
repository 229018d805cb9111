"""How well scores order positives above negatives."""

import numpy as np
from numpy.typing import ArrayLike


def auc_from_histogram(counts: ArrayLike) -> float | None:
    """Returns the area under the ROC curve of binned scores.

    It is the probability that a random positive scores above a random negative, where
    scores within one bin count as ties (one half); with 200 bins that differs from the
    exact area by less than the share of pairs that fall into a common bin.

    Args:
        counts: (2, bins), number of negatives and of positives in each bin, bins in
            increasing order of the score.

    Returns:
        The area, in [0, 1], or None where one of the classes is empty.

    Example:
        >>> auc_from_histogram([[5, 1, 0], [0, 1, 5]])
        0.9861111111111112
    """
    negatives, positives = np.asarray(counts, np.float64)
    pairs = negatives.sum() * positives.sum()
    if pairs == 0:
        return None
    below = np.cumsum(negatives) - negatives
    return float(np.sum(positives * (below + 0.5 * negatives)) / pairs)
