"""Racing: gives candidates up as soon as they are known to miss the top k.

All candidates see the same examples with the same masks, so that the difference of two
is known far better than either. At planned numbers of rows those who lead are scored to
the end, and who is then behind the k-th best known by more than chance allows over all
looks, candidates and generations of a search is given up;
`training.scoring.racing_bound` has the bound. What counts is
the order on this held-out set, not on all text: the error is that of a sample without
replacement and vanishes towards the last batch.

The parents of the next generation depend on the top k alone. While no candidate that
belongs there is given up, the search is the same as without racing, score by score.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.command_line import CommandError
from training.scoring.racing_bound import (
    LEVEL,
    MIN_ROWS,
    behind_known,
    planned_looks,
)
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

Array = NDArray[np.float64]

# Of the sums of an example: which one the fitness is, its sign, so that more is better,
# and which one counts its positions.
_PLACES = {"loss": (0, -1.0, 2), "accuracy": (1, 1.0, 2), "accuracy_all": (4, 1.0, 5)}


class RacingScorer:
    """Scores candidates by a race; see the module.

    Args:
        scorer: scores candidates on one batch.
        top_k: how many of the best matter, k.
        generations: of a search, over which the chance of an error is divided.
        fitness: what ranks, one of `training.scoring.score.FITNESS`.
        level: chance that a search is changed.

    Raises:
        ValueError: if a number is out of range, or the fitness unknown.
    """

    def __init__(
        self,
        scorer: RowScorer,
        top_k: int,
        generations: int,
        *,
        fitness: str = "loss",
        level: float = LEVEL,
    ) -> None:
        """Checks the settings; nothing is scored yet."""
        for name, number in (("top_k", top_k), ("generations", generations)):
            if number < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: {name}={number}"
                )
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"`level` must be between 0 and 1. Received: level={level}"
            )
        if fitness not in FITNESS:
            raise ValueError(
                f"`fitness` must be one of {', '.join(FITNESS)}. "
                f"Received: fitness={fitness!r}"
            )
        self._scorer = scorer
        self._top_k = top_k
        self._level = level / generations
        self._fitness = fitness
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
            race.add(self._rows(number, running, incumbents))
            if race.look(self._scorer.num_batches):
                leaders = race.leaders(self._top_k)
                rest = [
                    self._rows(later, leaders, incumbents)
                    for later in range(number + 1, self._scorer.num_batches)
                    if leaders
                ]
                for i, leader in enumerate(leaders):
                    race.finish(leader, [rows[i] for rows in rest])
                race.give_up(self._top_k, self._level)
            if on_work is not None:
                on_work((number + 1) / self._scorer.num_batches)
        scores = race.scores(self._top_k)
        complete = race.complete()
        tokens = int(next(iter(complete.values()))[2].sum())
        self.full_token_evaluations += tokens * len(set(candidates))
        best = race.ranked(complete)
        # More than k, so that ties cannot push one out that the search keeps.
        self._known = {one: complete[one] for one in best[: 2 * self._top_k]}
        result = [scores[candidate] for candidate in candidates]
        if on_scored is not None:
            for score in result:
                on_scored(score)
        return result

    def _rows(
        self, number: int, candidates: Sequence[str], incumbents: Sequence[str]
    ) -> Array:
        rows = self._scorer.rows(number, candidates, keep=incumbents)
        self.token_evaluations += int(rows[0, 2].sum()) * len(candidates)
        return rows

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
    place, sign, _ = _PLACES[fitness]
    values: Array = sign * rows[..., place, :]
    return values


class _Race:
    """The rows of one generation and of the best before it, as they come in."""

    def __init__(
        self,
        candidates: Sequence[str],
        incumbents: Sequence[str],
        known: dict[str, Array],
        fitness: str,
    ) -> None:
        self._candidates = candidates
        self._fitness = fitness
        self._whole = {one: known[one] for one in incumbents}
        self._parts: dict[str, list[Array]] = {one: [] for one in candidates}
        self._out: set[str] = set()
        self._seen = 0
        self._batches = 0
        self._looks: list[int] | None = None

    @property
    def running(self) -> list[str]:
        """Whom the next batch is for."""
        return [
            one
            for one in self._candidates
            if one not in self._out and one not in self._whole
        ]

    def add(self, rows: Array) -> None:
        """Takes the rows (runners, 6, rows) of one more batch."""
        for one, own in zip(self.running, rows, strict=True):
            self._parts[one].append(own)
        self._seen += rows.shape[-1]
        self._batches += 1

    def look(self, num_batches: int) -> bool:
        """Returns whether a look is planned after what has been added.

        Args:
            num_batches: of the whole held-out set.
        """
        if self._looks is None:
            looks = planned_looks(self._seen * num_batches // self._batches)
            self._looks = list(looks)
            self._planned = max(1, len(looks))
        due = [look for look in self._looks if look <= self._seen]
        del self._looks[: len(due)]
        return bool(due) and self._batches < num_batches

    def leaders(self, top_k: int) -> list[str]:
        """Returns who is among the best k so far, and not known on all rows."""
        worths = {one: self._worth_so_far(one) for one in [*self._whole, *self.running]}
        best = sorted(worths, key=lambda one: -worths[one])[:top_k]
        return [one for one in best if one not in self._whole]

    def finish(self, candidate: str, rest: Sequence[Array]) -> None:
        """Takes the rows of a candidate that are still missing, batch by batch."""
        whole = np.concatenate([*self._parts[candidate], *rest], axis=-1)
        self._whole[candidate] = whole

    def give_up(self, top_k: int, level: float) -> None:
        """Gives up who is behind the k-th best of those that are known.

        Args:
            top_k: k.
            level: chance of an error in this generation.
        """
        running = self.running
        if len(self._whole) < top_k or not running:
            return
        whole = {one: self._whole[one] for one in self.ranked(self._whole)[:top_k]}
        # The last batch is filled up with rows that count nowhere.
        counts = next(iter(whole.values()))[_PLACES[self._fitness][2]] > 0
        seen = counts[: self._seen]
        if not counts[self._seen :].any() or seen.sum() < MIN_ROWS:
            return
        values = np.stack(
            [
                worth(np.concatenate(self._parts[one], axis=-1), self._fitness)[seen]
                for one in running
            ]
        )
        known = np.stack(
            [worth(rows, self._fitness)[counts] for rows in whole.values()]
        )
        behind = behind_known(values, known, level / self._planned / top_k)
        self._out.update(one for one, out in zip(running, behind, strict=True) if out)

    def _worth_so_far(self, candidate: str) -> float:
        rows = self._whole.get(candidate)
        if rows is None:
            rows = np.concatenate(self._parts[candidate], axis=-1)
        return float(worth(rows[:, : self._seen], self._fitness).sum())

    def ranked(self, whole: dict[str, Array]) -> list[str]:
        """Returns the names of whoever has all rows, best first."""
        scores = {one: score_of(one, rows.sum(axis=-1)) for one, rows in whole.items()}
        return sorted(whole, key=lambda one: rank_key(scores[one], self._fitness))

    def complete(self) -> dict[str, Array]:
        """Returns all rows of whoever saw the whole held-out set."""
        return {
            **{
                one: np.concatenate(parts, axis=-1)
                for one, parts in self._parts.items()
                if parts and one not in self._out
            },
            **self._whole,
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
        ranked = self.ranked(complete)
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
            if self._fitness == "loss":
                worst = sums[last][0] / whole[0] + 2.0 * 10.0**-LOSS_DIGITS
                estimate[0] = max(estimate[0], worst)
            else:
                hits = 1 if self._fitness == "accuracy" else 3  # in `figures`
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
