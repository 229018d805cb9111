"""Racing: gives candidates up as soon as they are known to miss the top k.

All candidates see the same examples with the same masks, so that the difference of two
is known far better than either. Batch by batch, a candidate is given up when it is
behind the k-th best by more than `Z` standard errors of that difference. What counts is
the order on this held-out set, not on all text: the error is that of a sample without
replacement and vanishes towards the last batch.

The parents of the next generation depend on the top k alone. While no candidate that
belongs there is given up, the search is the same as without racing, score by score.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from command_line import CommandError
from training.scoring.score import OnScored, OnWork, RowScorer, Score, score_of

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
        z: how sure to be, in standard errors.
    """

    def __init__(self, scorer: RowScorer, top_k: int, z: float = Z) -> None:
        self._scorer = scorer
        self._top_k = top_k
        self._z = z
        # Rows of the best so far: candidate -> (3, all rows)
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
        race = _Race(list(dict.fromkeys(candidates)), incumbents, self._known)
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
        best = sorted(complete, key=lambda one: -complete[one][1].sum())
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


class _Race:
    """The rows of one generation and of the best before it, as they come in."""

    def __init__(
        self,
        candidates: Sequence[str],
        incumbents: Sequence[str],
        known: dict[str, Array],
    ) -> None:
        self._candidates = candidates
        self._whole = {one: known[one] for one in incumbents}
        self._parts: dict[str, list[Array]] = {one: [] for one in candidates}
        names = dict.fromkeys([*self._whole, *self._parts])
        self._names = {one: i for i, one in enumerate(names)}
        # Of the correct tokens by example: sums, and sums of products of two runners
        self._sums = np.zeros(len(names))
        self._products = np.zeros((len(names), len(names)))
        self._out: set[str] = set()
        self._seen = 0

    @property
    def running(self) -> list[str]:
        """Whom the next batch is for."""
        return [one for one in self._candidates if one not in self._out]

    def add(self, rows: Array) -> None:
        """Takes the rows (runners, 3, rows) of one more batch."""
        width = rows.shape[-1]
        correct = np.zeros((len(self._names), width))
        for one, own in zip(self.running, rows, strict=True):
            self._parts[one].append(own)
            correct[self._names[one]] = own[1]
        for one, whole in self._whole.items():
            correct[self._names[one]] = whole[1, self._seen : self._seen + width]
        self._seen += width
        self._sums += correct.sum(axis=1)
        self._products += correct @ correct.T

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
        known = np.stack([self._whole[one][1] for one in names])
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
            y = np.concatenate([part[1] for part in self._parts[one]])
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

        Of one that was given up it is an estimate: the k-th best's accuracy plus the
        difference on the examples that both saw, and in any case below the k-th best.
        """
        complete = self.complete()
        if not complete:
            raise CommandError("the held-out set is empty: nothing can be scored")
        sums = {one: rows.sum(axis=-1) for one, rows in complete.items()}
        ranked = sorted(sums, key=lambda one: -sums[one][1])
        last = ranked[min(top_k, len(ranked)) - 1]
        tokens = float(sums[last][2])
        found = {}
        for one in self._candidates:
            if one in complete:
                found[one] = score_of(one, *sums[one].tolist())
                continue
            own = np.concatenate(self._parts[one], axis=-1)
            same = complete[last][:, : own.shape[-1]]
            seen = float(own[2].sum())
            behind = (own[:2] - same[:2]).sum(axis=-1) / seen
            accuracy = sums[last][1] / tokens + behind[1]
            loss = sums[last][0] / tokens + behind[0]
            below = (sums[last][1] - 1.0) / tokens
            estimate = max(0.0, min(float(accuracy), float(below)))
            found[one] = Score(
                architecture=one,
                accuracy=estimate,
                loss=float(loss),
                standard_error=math.sqrt(estimate * (1.0 - estimate) / seen),
                masked_tokens=int(seen),
                eliminated=True,
            )
        return found
