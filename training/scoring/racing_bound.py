"""When a race may give a candidate up: a test that counts how often it looks.

A search is changed if a candidate that belongs among the top k is given up. `LEVEL` is
the chance of that which a whole search may take. It is divided evenly:

* over the generations, and in each over the looks: a race looks at planned numbers of
  rows only (`planned_looks`), however small its batches are;
* over the candidates at risk. Whoever does not belong may be given up at any time, and
  at most k of a generation belong, so that a union over k of them bounds all errors.

Each look is then Student's test at that level, which fixes the threshold: nothing in it
is fitted to a table of scores. Rows count as drawn without replacement in random
order; given that, the test is exact where what the regression leaves of the values is
normal, and asymptotic otherwise, for losses (which have no range) as for hits. Hence
`MIN_ROWS`, and hence a candidate's variance is averaged with that of its rivals:
few rows of hits may happen to show no difference at all.

A threshold on the chance to belong under a flat prior, whose sum a search may spend,
saves a little more, and was too bold where candidates are all alike: it takes for skill
what is luck with the first rows (9 of 60 races of equal candidates were changed).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

Array = NDArray[np.float64]

LEVEL = 0.05
"""Chance that racing changes a search."""

MIN_ROWS = 32
"""Rows before the first look, and the weight, in rows, of the rivals' variance."""

LOOKS = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4)
"""Shares of the rows after which a race looks. Later there is little left to save."""

_ROWS_PER_REGRESSOR = 16
_ROUNDING = 1e-9


def planned_looks(rows: int) -> tuple[int, ...]:
    """Returns after how many of so many rows a race looks, ascending."""
    planned = {max(MIN_ROWS, round(share * rows)) for share in LOOKS}
    return tuple(sorted(look for look in planned if look < rows))


def behind_known(values: Array, known: Array, level: float) -> NDArray[np.bool_]:
    """Tells whose total is below the least of the totals that are known.

    What a candidate will reach on the rest of the rows is predicted from what the known
    ones reach there: by least squares on their mean and on as many of their principal
    components as the rows seen can bear. The bound is that of a prediction, so that it
    holds the error of the coefficients as well as that of the rest.

    Args:
        values: float64 (candidates, n), larger is better, on the first n rows.
        known: float64 (k, rows), of candidates known on all rows, k >= 1.
        level: chance of an error, for one candidate at this look.

    Returns:
        bool (candidates,).
    """
    seen, rows = values.shape[1], known.shape[1]
    design = _design(known, seen)
    solve = np.linalg.pinv(design[:seen])
    coefficients = values @ solve.T
    left = values - coefficients @ design[:seen].T
    freedom = seen - int(np.linalg.matrix_rank(design[:seen]))
    rest = design[seen:].sum(axis=0)
    variance = _with_rivals((left**2).sum(axis=1) / freedom, freedom)
    variance *= rows - seen + float(((rest @ solve) ** 2).sum())
    predicted = values.sum(axis=1) + coefficients @ rest
    least = float(known.sum(axis=1).min())
    # Candidates that repeat a known one leave nothing but rounding.
    error = np.maximum(np.sqrt(variance), _ROUNDING * (1.0 + abs(least)))
    behind: NDArray[np.bool_] = stdtr(freedom, (predicted - least) / error) < level
    return behind


def _design(known: Array, seen: int) -> Array:
    """What to predict from, (rows, regressors)."""
    middle = known.mean(axis=0)
    columns = [np.ones(known.shape[1]), middle]
    _, sizes, directions = np.linalg.svd(known - middle, full_matrices=False)
    room = seen // _ROWS_PER_REGRESSOR - 1
    columns += [
        direction
        for size, direction in zip(sizes, directions[:room], strict=False)
        if size > 1e-9 * (1.0 + sizes[0])
    ]
    return np.stack(columns, axis=1)


def _with_rivals(variance: Array, freedom: int) -> Array:
    """Averages each variance with the mean of all, which weighs `MIN_ROWS` rows."""
    return (freedom * variance + MIN_ROWS * variance.mean()) / (freedom + MIN_ROWS)
