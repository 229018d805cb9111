"""Racing: gives candidates up as soon as they are known to miss the top k.

All candidates see the same examples with the same masks, so that the difference of two
is known far better than either. Batch by batch, a candidate is given up when it is
behind the k-th best by more than `Z` standard errors of that difference. What counts is
the order on this held-out set, not on all text: the error is that of a sample without
replacement and vanishes towards the last batch.

The parents of the next generation depend on the top k alone. While no candidate that
belongs there is given up, the search is the same as without racing, score by score.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from command_line import CommandError
from training.scoring.score import (
    FITNESS,
    LOSS_DIGITS,
    OnScored,
    OnWork,
    RowScorer,
    Score,
    rank_key,
    score_of,
)

Z = 2.4
"""Standard errors; see `benchmarks/search_racing.py` for what it gains and misses."""

MIN_ROWS = 16
"""Examples before anything is given up: a standard error of fewer says little."""

Array = NDArray[np.float64]


class RacingScorer:
    """Scores candidates by a race; see the module.

    Args:
        scorer: scores candidates on one batch.
        top_k: how many of the best matter, k.
        fitness: what ranks, one of `training.scoring.score.FITNESS`.
        z: how sure to be, in standard errors.
    """

    def __init__(
        self, scorer: RowScorer, top_k: int, fitness: str = "loss", z: float = Z
    ) -> None:
        self._fitness = fitness
        self._scorer = scorer
        self._top_k = top_k
        self._z = z
        # Rows of the best so far: candidate -> (6, all rows)
        self._known: dict[str, Array] = {}
        self.token_evaluations = 0
        """Masked tokens predicted so far, summed over candidates."""
        self.full_token_evaluations = 0
        """What it would have been without racing."""

    @property
    def identity(self) -> str:
        """That of the scorer."""
        return self._scorer.identity

    def score(
        self,
        candidates: Sequence[str],
        on_scored: OnScored | None = None,
        *,
        incumbents: Sequence[str] = (),
        on_work: OnWork | None = None,
    ) -> list[Score]:
        """Returns the score of each candidate, in their order.

        Args:
            candidates: what to score.
            on_scored: told each score.
            incumbents: the best so far, with which the candidates compete. Those whose
                rows are not known (after a restart) are computed again.
            on_work: told how far the work is.

        Raises:
            ValueError: if a candidate is not a path of the supernet.
            CommandError: if nothing is masked, or a loss is not finite.
        """
        self._learn([one for one in incumbents if one not in self._known])
        race = _Race(
            list(dict.fromkeys(candidates)), incumbents, self._known, self._fitness
        )
        for number in range(self._scorer.num_batches):
            running = race.running
            if not running:
                break
            rows = self._scorer.rows(number, running, keep=incumbents)
            race.add(rows)
            self.token_evaluations += int(rows[0, 2].sum()) * len(running)
            race.give_up(self._top_k, self._z, (number + 1) / self._scorer.num_batches)
            if on_work is not None:
                on_work((number + 1) / self._scorer.num_batches)
        scores = race.scores(self._top_k)
        complete = race.complete()
        tokens = int(next(iter(complete.values()))[2].sum())
        self.full_token_evaluations += tokens * len(set(candidates))
        best = sorted(
            complete, key=lambda one: -worth(complete[one], self._fitness).sum()
        )
        # More than k, so that ties cannot push one out that the search keeps.
        self._known = {one: complete[one] for one in best[: 2 * self._top_k]}
        result = [scores[candidate] for candidate in candidates]
        if on_scored is not None:
            for score in result:
                on_scored(score)
        return result

    def _learn(self, incumbents: Sequence[str]) -> None:
        """Computes all rows of the best so far, after a restart."""
        if not incumbents:
            return
        batches = [
            self._scorer.rows(number, incumbents)
            for number in range(self._scorer.num_batches)
        ]
        whole = np.concatenate(batches, axis=-1)
        self._known |= dict(zip(incumbents, whole, strict=True))


def worth(rows: Array, fitness: str) -> Array:
    """Returns what each example adds to the fitness: (..., rows).

    All candidates are asked for the same positions, so that sums order them as means
    do.

    Args:
        rows: (..., 6, rows), see `RowScorer.rows`.
        fitness: one of `training.scoring.score.FITNESS`.
    """
    place, sign = {"loss": (0, -1.0), "accuracy": (1, 1.0), "accuracy_all": (4, 1.0)}[
        fitness
    ]
    return sign * rows[..., place, :]


class _Race:
    """The rows of one generation and of the best before it, as they come in."""

    def __init__(
        self,
        candidates: Sequence[str],
        incumbents: Sequence[str],
        known: dict[str, Array],
        fitness: str,
    ) -> None:
        self._fitness = fitness
        self._candidates = candidates
        self._whole = {one: known[one] for one in incumbents}
        self._parts: dict[str, list[Array]] = {one: [] for one in candidates}
        names = dict.fromkeys([*self._whole, *self._parts])
        self._names = {one: i for i, one in enumerate(names)}
        # Of the worth by example: sums, and sums of products of two runners
        self._sums = np.zeros(len(names))
        self._products = np.zeros((len(names), len(names)))
        self._out: set[str] = set()
        self._seen = 0

    @property
    def running(self) -> list[str]:
        """Whom the next batch is for."""
        return [one for one in self._candidates if one not in self._out]

    def add(self, rows: Array) -> None:
        """Takes the rows (runners, 6, rows) of one more batch."""
        width = rows.shape[-1]
        values = np.zeros((len(self._names), width))
        for one, own in zip(self.running, rows, strict=True):
            self._parts[one].append(own)
            values[self._names[one]] = worth(own, self._fitness)
        for one, whole in self._whole.items():
            values[self._names[one]] = worth(whole, self._fitness)[
                self._seen : self._seen + width
            ]
        self._seen += width
        self._sums += values.sum(axis=1)
        self._products += values @ values.T

    def give_up(self, top_k: int, z: float, share: float) -> None:
        """Gives up who is behind at least `top_k` others.

        Args:
            top_k: k.
            z: standard errors.
            share: of the held-out set that was seen.
        """
        if self._seen < MIN_ROWS or share >= 1.0:
            return
        if len(self._whole) >= top_k:
            self._give_up_against_known(top_k, z)
        else:
            self._give_up_among_themselves(top_k, z, share)

    def _give_up_against_known(self, top_k: int, z: float) -> None:
        """Compares with the k-th best, whose score is known exactly.

        What a candidate will do on the rest is predicted from what the best do there,
        which is known too: by a regression, on the examples seen, on their mean and on
        the one that is most like it. That leaves far less to chance than the difference
        to any one of them.
        """
        names = list(self._whole)
        known = np.stack([worth(self._whole[one], self._fitness) for one in names])
        threshold = np.sort(known.sum(axis=1))[-top_k]
        middle = known.mean(axis=0)
        seen, total = self._seen, known.shape[1]
        reach = z * math.sqrt((total - seen) * total / seen)
        for one in [one for one in self._candidates if one not in self._out]:
            likest = max(
                range(len(names)),
                key=lambda i: sum(a == b for a, b in zip(names[i], one, strict=True)),
            )
            x = np.stack([np.ones(total), middle, known[likest]], axis=1)
            y = np.concatenate(
                [worth(part, self._fitness) for part in self._parts[one]]
            )
            solution, *_ = np.linalg.lstsq(x[:seen], y, rcond=None)
            rest = y - x[:seen] @ solution
            spread = math.sqrt(float(rest @ rest) / (seen - x.shape[1]))
            predicted = float(y.sum() + (x[seen:] @ solution).sum())
            if predicted + reach * spread < threshold:
                self._out.add(one)

    def _give_up_among_themselves(self, top_k: int, z: float, share: float) -> None:
        """Compares with every other one; nobody's score is known yet."""
        others = [self._names[one] for one in (*self._whole, *self.running)]
        squares = np.diag(self._products)
        for one in [one for one in self._candidates if one not in self._out]:
            mine = self._names[one]
            leads = self._sums[others] - self._sums[mine]
            # Of the differences, example by example
            square = squares[others] + squares[mine] - 2 * self._products[mine, others]
            variance = (square - leads**2 / self._seen) / (self._seen - 1)
            error = np.sqrt(np.maximum(variance, 0.0) * self._seen * (1.0 - share))
            if int(((leads > 0) & (leads > z * error)).sum()) >= top_k:
                self._out.add(one)

    def complete(self) -> dict[str, Array]:
        """Returns all rows of whoever saw the whole held-out set."""
        return {
            **self._whole,
            **{
                one: np.concatenate(parts, axis=-1)
                for one, parts in self._parts.items()
                if parts and one not in self._out
            },
        }

    def scores(self, top_k: int) -> dict[str, Score]:
        """Returns the score of every candidate.

        Of one that was given up it is an estimate: the k-th best's figures plus the
        difference on the examples that both saw, and in any case below the k-th best.
        """
        complete = self.complete()
        if not complete:
            raise CommandError("the held-out set is empty: nothing can be scored")
        sums = {one: rows.sum(axis=-1) for one, rows in complete.items()}
        place = FITNESS.index(self._fitness)
        ranked = sorted(
            sums, key=lambda one: rank_key(score_of(one, sums[one]), self._fitness)
        )
        last = ranked[min(top_k, len(ranked)) - 1]
        found = {}
        for one in self._candidates:
            if one in complete:
                found[one] = score_of(one, sums[one].tolist())
                continue
            own = np.concatenate(self._parts[one], axis=-1)
            same = complete[last][:, : own.shape[-1]]
            seen = np.repeat(own[[2, 5]].sum(axis=-1), 2)  # for loss, hits; _all
            whole = np.repeat(sums[last][[2, 5]], 2)
            figures = np.array([0, 1, 3, 4])
            estimate = sums[last][figures] / whole
            estimate += (own - same)[figures].sum(axis=-1) / seen
            # Below the k-th best, by one hit or by what losses are told apart by.
            if place == 0:
                worst = sums[last][0] / whole[0] + 2.0 * 10.0**-LOSS_DIGITS
                estimate[0] = max(estimate[0], worst)
            else:
                hits = 1 if place == 1 else 3  # in `figures`
                worst = (sums[last][figures[hits]] - 1.0) / whole[hits]
                estimate[hits] = min(estimate[hits], worst)
            estimate[[1, 3]] = np.clip(estimate[[1, 3]], 0.0, 1.0)
            loss, hits_sum, loss_all, hits_all = (estimate * seen).tolist()
            score = score_of(
                one,
                [loss, hits_sum, seen[0], loss_all, hits_all, seen[2]],
                eliminated=True,
            )
            found[one] = dataclasses.replace(score, accuracy_kept=None, loss_kept=None)
        return found
