"""Are held-out documents as long as the others?

A split by hash of the text makes them so, whatever the corpus; where they are not, the
corpus was chosen by something that the hash knows, and figures on the held-out part say
little about the rest.
"""

import math

import numpy as np
import numpy.typing as npt

LEVEL = 0.001
"""A sound split is warned about once in a thousand corpora."""

LEAST_DIFFERENCE = 0.02
"""How far the probability that a held-out document is the longer one must be from one
half. In a corpus of millions, copies of a document (which stay together) and the like
make differences that are real and mean nothing."""


LEAST_DOCUMENTS = 10
"""Of fewer on one side nothing is said: one long text is no distribution, and the
test's approximation needs some."""


def length_test(
    train: npt.NDArray[np.int64], held_out: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """Compares two histograms over the same bins, by Mann and Whitney's test.

    It uses ranks, so a few endless documents do not decide, with the correction for
    ties (all documents of a bin) and for continuity.

    Args:
        train: int64 (bins,), documents of each bin, in ascending order of length.
        held_out: int64 (bins,).

    Returns:
        The two-sided p-value, and the probability that a held-out document is the
        longer one, ties counting half; (1, 0.5) where there is nothing to compare.
    """
    # Floats: products of counts of billions exceed int64.
    n, m = float(train.sum()), float(held_out.sum())
    if not n or not m:
        return 1.0, 0.5
    below = np.cumsum(train) - train
    wins = float(np.sum(held_out * (below + train / 2.0)))
    total = n + m
    both = (train + held_out).astype(np.float64)
    ties = float(np.sum(both**3 - both)) / (total * max(total - 1.0, 1.0))
    variance = n * m / 12.0 * (total + 1.0 - ties)
    if variance <= 0.0:
        return 1.0, 0.5
    distance = max(0.0, abs(wins - n * m / 2.0) - 0.5)
    return math.erfc(distance / math.sqrt(2.0 * variance)), wins / (n * m)


def length_warning(
    train: npt.NDArray[np.int64], held_out: npt.NDArray[np.int64]
) -> str | None:
    """Returns what to warn about, None if nothing; see `length_test`."""
    p_value, longer = length_test(train, held_out)
    if min(train.sum(), held_out.sum()) < LEAST_DOCUMENTS:
        return None
    if p_value >= LEVEL or abs(longer - 0.5) < LEAST_DIFFERENCE:
        return None
    return (
        f"held-out documents are not as long as the others: one is longer than one of "
        f"the others with probability {longer:.2f}, expected 0.50 (p {p_value:.1g}, "
        f"Mann-Whitney; {int(held_out.sum())} held out, {int(train.sum())} not). Was "
        "the corpus chosen by a hash of its text, or is it mostly copies?"
    )
