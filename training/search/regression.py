"""Explains scores by a ridge regression on letters by position and adjacent pairs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvbert_tf.search.letter_model import LetterModel

FOLDS = 10
LEAST_CANDIDATES = 20
"""Fewer scored candidates are not explained."""

LEAST_TRAINING = 10
"""With fewer candidates to learn from, a fold says nothing of R²."""

NEAR_SHARE = 8
"""Architectures that differ in at most 1 / `NEAR_SHARE` of their layers, or in one, are
near-duplicates: a regression would know one from the other."""

_ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_BOOTSTRAPS = 200
_LEVEL = 0.95


def fit(
    accuracies: Mapping[str, float], letters: str, weights: Mapping[str, float]
) -> "LetterModel":
    """Fits the model to all scored candidates.

    Args:
        accuracies: architecture to score.
        letters: the letters of the space.
        weights: how much each score counts, for example its masked tokens.

    Returns:
        The model; its parts add up to a predicted accuracy.
    """
    candidates, values, importance = _sorted(accuracies, weights)
    x = features(candidates, letters)
    ridge = _ridge()
    ridge.fit(x, values, sample_weight=importance)
    return _model(ridge.intercept_, ridge.coef_, letters, len(candidates[0]))


def explain(
    accuracies: Mapping[str, float],
    letters: str,
    weights: Mapping[str, float],
    seed: int = 0,
) -> dict[str, Any]:
    """Says which letter helps where, and how far that can be believed.

    Args:
        accuracies: architecture to score.
        letters: the letters of the space.
        weights: how much each score counts.
        seed: of folds and bootstrap samples.

    Returns:
        `candidates`, how many; `r2`, the coefficient of determination on candidates
        that were left out together with their near-duplicates, as a mean over folds
        (`r2_folds`); `r2_interval`, its 95% interval by resampling the candidates'
        predictions; both are None, and `r2_undefined` tells why, where leaving
        near-duplicates out leaves too little; `effects`, for each position and letter
        the fitness gained over the mean of the letters there (`gain`) with its 95%
        interval, a bootstrap over the candidates. Where nothing can be said
        `undefined` tells why.
    """
    candidates, values, importance = _sorted(accuracies, weights)
    if len(candidates) < LEAST_CANDIDATES:
        return {
            "candidates": len(candidates),
            "undefined": f"fewer than {LEAST_CANDIDATES} scored candidates",
        }
    if float(np.ptp(values)) == 0.0:
        return {"candidates": len(values), "undefined": "all values are equal"}
    x = features(candidates, letters)
    predicted = np.zeros(len(values))
    base = np.zeros(len(values))
    folds = []
    for train, test in without_near_duplicates(candidates, seed):
        folds.append(test)
        fold = _ridge()
        fold.fit(x[train], values[train], sample_weight=importance[train])
        predicted[test] = fold.predict(x[test])
        base[test] = np.average(values[train], weights=importance[train])
    draw = np.random.default_rng(seed)
    samples = draw.integers(len(values), size=(_BOOTSTRAPS, len(values)))

    def mean_r2(chosen: NDArray[np.int64]) -> float | None:
        """The mean over the folds; each candidate counts as often as it was drawn."""
        times = np.bincount(chosen, minlength=len(values))
        parts = []
        for test in folds:
            rows = np.repeat(test, times[test])
            parts.append(_r2(values[rows], predicted[rows], base[rows]))
        defined = [part for part in parts if part is not None]
        return sum(defined) / len(defined) if defined else None

    r2 = mean_r2(np.arange(len(values)))
    spread = [mean_r2(sample) for sample in samples]
    r2_folds = [_r2(values[t], predicted[t], base[t]) for t in folds]

    whole = _ridge()
    whole.fit(x, values, sample_weight=importance)
    length = len(candidates[0])
    effects = _effects(_model(0.0, whole.coef_, letters, length), x)
    boots = []
    for sample in samples:
        again = _coefficients(
            x[sample], values[sample], importance[sample], float(whole.alpha_)
        )
        boots.append(_effects(_model(0.0, again, letters, length), x))
    low, high = np.quantile(boots, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return {
        "candidates": len(values),
        "r2": r2,
        "r2_interval": _interval(spread),
        "r2_folds": r2_folds,
        **(
            {}
            if folds
            else {
                "r2_undefined": f"no fold of {FOLDS} leaves {LEAST_TRAINING} "
                "candidates that are no near-duplicates of its own"
            }
        ),
        "effects": [
            {
                "position": i + 1,
                "letter": letter,
                "gain": float(effects[i, j]),
                "interval": [float(low[i, j]), float(high[i, j])],
            }
            for i in range(length)
            for j, letter in enumerate(letters)
        ],
    }


def without_near_duplicates(
    candidates: Sequence[str], seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields the candidates to learn from, and the fold to predict with that.

    A fold is never predicted from near-duplicates of its own candidates.

    Args:
        candidates: different architectures of L layers.
        seed: of the division into folds.

    Yields:
        int64 indices (N,) and (M,). Folds with too little to learn from are left out.
    """
    codes = np.array([list(candidate) for candidate in candidates])
    radius = max(1, codes.shape[1] // NEAR_SHARE)
    order = np.random.default_rng(seed).permutation(len(candidates))
    for test in np.array_split(order, FOLDS):
        differences = np.zeros((len(test), len(codes)), np.int64)
        for layer in codes.T:  # one at a time: all would be (M, N, L)
            differences += layer[test, np.newaxis] != layer
        train = np.flatnonzero((differences > radius).all(axis=0))
        if len(train) >= LEAST_TRAINING:
            yield train, np.sort(test)


def features(candidates: Sequence[str], letters: str) -> NDArray[np.float64]:
    """Returns indicators: each letter at each position, then each pair of neighbours.

    Returns:
        float64 (candidates, L n + (L - 1) n n).
    """
    codes = np.array([[letters.index(a) for a in c] for c in candidates])
    count = len(letters)
    single = np.eye(count)[codes]  # (candidates, L, n)
    pairs = np.eye(count * count)[codes[:, :-1] * count + codes[:, 1:]]
    rows = len(candidates)
    return np.concatenate([single.reshape(rows, -1), pairs.reshape(rows, -1)], axis=1)


def _sorted(
    accuracies: Mapping[str, float], weights: Mapping[str, float]
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Candidates in an order of their own, so that the log's does not matter."""
    candidates = sorted(accuracies)
    importance = np.array([weights[c] for c in candidates], float)
    return (
        candidates,
        np.array([accuracies[c] for c in candidates]),
        importance / max(importance.mean(), 1e-12),
    )


def _ridge() -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(alphas=_ALPHAS)


def _coefficients(
    x: NDArray[np.float64],
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    alpha: float,
) -> NDArray[np.float64]:
    """The same ridge regression by its normal equations: many of them are wanted."""
    share = weights / weights.sum()
    x = x - share @ x
    values = values - share @ values
    scaled = x * weights[:, np.newaxis]
    gram = x.T @ scaled + alpha * np.eye(x.shape[1])
    return np.asarray(np.linalg.solve(gram, scaled.T @ values), np.float64)


def _model(
    constant: float, coefficients: NDArray[np.float64], letters: str, length: int
) -> "LetterModel":
    count = len(letters)
    return LetterModel(
        letters,
        float(constant),
        coefficients[: length * count].reshape(length, count),
        coefficients[length * count :].reshape(length - 1, count, count),
    )


def _effects(model: "LetterModel", x: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a letter brings over the others at its place, (L, n).

    Pairs count with the neighbour taken as often as the scored candidates have each
    letter there.
    """
    length, count = model.positions.shape
    shares = x[:, : length * count].mean(axis=0).reshape(length, count)
    effects = model.positions.copy()
    for i in range(length - 1):
        effects[i] += model.pairs[i] @ shares[i + 1]
        effects[i + 1] += shares[i] @ model.pairs[i]
    centred: NDArray[np.float64] = effects - effects.mean(axis=1, keepdims=True)
    return centred


def _r2(
    values: NDArray[np.float64],
    predicted: NDArray[np.float64],
    base: NDArray[np.float64],
) -> float | None:
    """Share of the squared deviation from the mean that the prediction removes."""
    deviation = float(((values - base) ** 2).sum())
    if deviation == 0.0:
        return None
    return 1.0 - float(((values - predicted) ** 2).sum()) / deviation


def _interval(values: Sequence[float | None]) -> list[float] | None:
    defined = [value for value in values if value is not None]
    if not defined:
        return None
    low, high = np.quantile(defined, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return [float(low), float(high)]
