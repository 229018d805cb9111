"""Rank correlations against SciPy, and what is undefined."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from training.metrics.rank_correlation import (
    bootstrap_interval,
    grouped_kendall_tau,
    kendall_tau,
    spearman,
)

pairs = st.integers(2, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 6), min_size=n, max_size=n),
        st.lists(st.integers(0, 6), min_size=n, max_size=n),
    )
)


@given(pairs)
def test_as_scipy(values: tuple[list[int], list[int]]) -> None:
    first, second = values
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert kendall_tau(first, second) is None
        assert spearman(first, second) is None
        return
    tau = kendall_tau(first, second)
    rho = spearman(first, second)
    assert tau == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-12)
    assert rho == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)


@given(pairs)
def test_groups_compare_their_own_pairs(values: tuple[list[int], list[int]]) -> None:
    first, second = values
    groups = [i % 3 for i in range(len(first))]
    agree = ties_a = ties_b = 0
    for i, j in itertools.combinations(range(len(first)), 2):
        if groups[i] == groups[j]:
            a, b = np.sign(first[i] - first[j]), np.sign(second[i] - second[j])
            agree, ties_a, ties_b = agree + a * b, ties_a + a * a, ties_b + b * b
    found = grouped_kendall_tau(first, second, groups)
    if ties_a * ties_b == 0:
        assert found is None
    else:
        assert found == pytest.approx(agree / np.sqrt(ties_a * ties_b))


def test_interval() -> None:
    draw = np.random.default_rng(0)
    first = draw.normal(size=40)
    second = first + draw.normal(size=40)
    low, high = bootstrap_interval(first, second, kendall_tau) or (2.0, 2.0)
    tau = kendall_tau(first, second)
    assert tau is not None
    assert -1.0 <= low < tau < high <= 1.0
    assert bootstrap_interval(first, second, kendall_tau) == [low, high]
    wide = bootstrap_interval(first[:8], second[:8], kendall_tau)
    assert wide is not None
    assert wide[1] - wide[0] > high - low
    assert bootstrap_interval([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], kendall_tau) is None


def test_lengths() -> None:
    with pytest.raises(ValueError, match="one length"):
        spearman([1.0, 2.0], [1.0])
    assert spearman([1.0], [2.0]) is None
    assert kendall_tau([], []) is None
