"""Rank correlations that say when they are undefined, with bootstrap intervals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Correlation = Callable[[ArrayLike, ArrayLike], float | None]


def kendall_tau(first: ArrayLike, second: ArrayLike) -> float | None:
    """Returns Kendall's tau-b, or None where all of one side are equal.

    Args:
        first: (n,) values.
        second: (n,) values of the same things.

    Raises:
        ValueError: if the lengths differ.
    """
    a, b = _pair(first, second)
    return _defined(a, b, stats.kendalltau)


def grouped_kendall_tau(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike
) -> float | None:
    """Returns tau-b over the pairs within the same group, or None if undefined.

    SciPy compares all pairs or none: these are the concordant less the discordant
    pairs of every group, over the geometric mean of the pairs that are not tied.

    Args:
        first: (n,) values.
        second: (n,) values of the same things.
        groups: (n,), equal for things that are compared with each other.
    """
    a, b = _pair(first, second)
    labels = np.asarray(groups)
    compared = np.triu(labels[:, None] == labels[None, :], k=1)
    signs_a = np.sign(a[:, None] - a[None, :])[compared]
    signs_b = np.sign(b[:, None] - b[None, :])[compared]
    scale = np.sqrt(float((signs_a != 0).sum()) * float((signs_b != 0).sum()))
    if scale == 0.0:
        return None
    return float((signs_a * signs_b).sum() / scale)


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """Returns Spearman's rho (ties get mean ranks), or None where it is undefined."""
    a, b = _pair(first, second)
    return _defined(a, b, stats.spearmanr)


def bootstrap_interval(
    first: ArrayLike,
    second: ArrayLike,
    correlation: Correlation,
    *,
    level: float = 0.95,
    samples: int = 2000,
    seed: int = 0,
) -> list[float] | None:
    """Returns the percentile interval of a correlation over resampled things.

    Args:
        first: (n,) values.
        second: (n,) values of the same things.
        correlation: of two such arrays.
        level: share of the samples that the interval holds.
        samples: how many; those where the correlation is undefined do not count.
        seed: of the resampling.

    Returns:
        The lower and the upper end; None where the correlation itself is undefined.
    """
    a, b = _pair(first, second)
    if correlation(a, b) is None:
        return None
    draw = np.random.default_rng(seed)
    values = []
    for _ in range(samples):
        chosen = draw.integers(len(a), size=len(a))
        value = correlation(a[chosen], b[chosen])
        if value is not None:
            values.append(value)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return [float(low), float(high)]


def all_equal(values: Sequence[float]) -> bool:
    """Whether a correlation with these values is undefined."""
    return len(set(values)) < 2


def _pair(
    first: ArrayLike, second: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(
            f"Expected two arrays of one length. Received shapes {a.shape}, {b.shape}."
        )
    if np.isnan(a).any() or np.isnan(b).any():
        raise ValueError(
            "Expected numbers to correlate. Received: NaN at "
            f"{np.flatnonzero(np.isnan(a) | np.isnan(b))[:10].tolist()}."
        )
    return a, b


def _defined(
    a: NDArray[np.float64], b: NDArray[np.float64], correlation: Callable[..., Any]
) -> float | None:
    """Returns SciPy's correlation without its warning about constant values."""
    if all_equal(a.tolist()) or all_equal(b.tolist()):
        return None
    return float(correlation(a, b).statistic)
