"""Area under the ROC curve from binned scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.metrics.ranking import auc_from_histogram


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=60))
def test_equals_the_share_of_ordered_pairs(scored: list[tuple[int, bool]]) -> None:
    counts = np.zeros((2, 10))
    for score, positive in scored:
        counts[int(positive), score] += 1
    positives = [score for score, positive in scored if positive]
    negatives = [score for score, positive in scored if not positive]
    area = auc_from_histogram(counts)
    if not positives or not negatives:
        assert area is None
        return
    wins = [float(p > n) + 0.5 * float(p == n) for p in positives for n in negatives]
    assert area == pytest.approx(np.mean(wins))


def test_an_all_negative_predictor_scores_one_half() -> None:
    counts = np.zeros((2, 200))
    counts[:, 10] = 940, 60
    assert auc_from_histogram(counts) == 0.5
