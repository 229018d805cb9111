"""The comparison of the held-out documents' lengths with those of the others."""

import numpy as np
import pytest
from scipy import stats

from training.data.length_test import LEVEL, length_test, length_warning


@pytest.mark.parametrize(("n", "m"), [(1, 1), (40, 1), (7, 3), (300, 20), (5000, 90)])
def test_equal_to_scipy(n: int, m: int) -> None:
    draw = np.random.default_rng(n)
    for shift in (0, 2):
        values = draw.poisson(9, n), draw.poisson(9 + shift, m)
        train, held_out = (np.bincount(one, minlength=40) for one in values)
        found = length_test(train, held_out)
        expected = stats.mannwhitneyu(
            values[1], values[0], method="asymptotic", use_continuity=True
        )
        if np.ptp(np.concatenate(values)):
            assert found[0] == pytest.approx(min(1.0, expected.pvalue), rel=1e-9)
        assert found[1] == pytest.approx(expected.statistic / (n * m))


def test_few_documents_and_none_say_nothing() -> None:
    many = np.array([100_000, 0])
    for held_out in ([0, 0], [0, 1], [0, 9]):
        assert length_warning(many, np.array(held_out)) is None
        assert length_warning(np.array(held_out), many) is None
    assert length_test(np.array([5, 0]), np.array([5, 0])) == (1.0, 0.5)
    warning = length_warning(many, np.array([0, 10]))
    assert warning is not None
    assert "probability 1.00, expected 0.50" in warning


@pytest.mark.parametrize("documents", [20, 1000, 1_000_000, 3_000_000_000])
def test_splits_by_chance_are_warned_about_as_rarely_as_stated(documents: int) -> None:
    draw = np.random.default_rng(0)
    shape = stats.lognorm.pdf(np.arange(1, 41) / 8, 0.9)
    lengths = (shape / shape.sum() * documents).round().astype(np.int64)
    p_values = []
    for _ in range(1000):
        held_out = draw.binomial(lengths, 0.02)
        p_values.append(length_test(lengths - held_out, held_out)[0])
    # Six standard errors above the level
    assert np.mean(np.array(p_values) < LEVEL) < 0.007
    # A difference that a large sample finds and that means nothing
    if documents > 10_000:
        held_out = (lengths * np.linspace(0.0200, 0.0201, 40)).astype(np.int64)
        assert length_warning(lengths - held_out, held_out) is None
