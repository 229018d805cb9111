"""Racing: gives candidates up as soon as they are known to miss the top k.

All candidates see the same examples with the same masks, so that the difference of two
is known far better than either. At planned numbers of rows those who lead are scored to
the end, and who is then behind the k-th best known by more than chance allows over all
looks, candidates and generations of a search is given up: `training.scoring.race` is
the race of one generation, `training.scoring.racing_bound` has the bound. What
counts is the order on this held-out set, not on all text: the error is that of a sample
without replacement and vanishes towards the last batch.

The parents of the next generation depend on the top k alone. While no candidate that
belongs there is given up, the search is the same as without racing, score by score.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.scoring.race import Race
from training.scoring.racing_bound import LEVEL
from training.scoring.score import FITNESS, OnScored, OnWork, RowScorer, Score

Array = NDArray[np.float64]


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
        for name, value in (("top_k", top_k), ("generations", generations)):
            if value < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: {name}={value}"
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
        self._learn(
            [candidate for candidate in incumbents if candidate not in self._known]
        )
        race = Race(
            list(dict.fromkeys(candidates)), incumbents, self._known, self._fitness
        )
        for index in range(self._scorer.num_batches):
            running = race.running
            if not running:
                break
            race.add(self._rows(index, running, incumbents))
            if race.look(self._scorer.num_batches):
                leaders = race.leaders(self._top_k)
                rest = [
                    self._rows(later, leaders, incumbents)
                    for later in range(index + 1, self._scorer.num_batches)
                    if leaders
                ]
                for i, leader in enumerate(leaders):
                    race.finish(leader, [rows[i] for rows in rest])
                race.give_up(self._top_k, self._level)
            if on_work is not None:
                on_work((index + 1) / self._scorer.num_batches)
        scores = race.scores(self._top_k)
        complete = race.complete()
        tokens = int(next(iter(complete.values()))[2].sum())
        self.full_token_evaluations += tokens * len(set(candidates))
        best = race.ranked(complete)
        # More than k, so that ties cannot push one out that the search keeps.
        self._known = {
            candidate: complete[candidate] for candidate in best[: 2 * self._top_k]
        }
        result = [scores[candidate] for candidate in candidates]
        if on_scored is not None:
            for score in result:
                on_scored(score)
        return result

    def _rows(
        self, index: int, candidates: Sequence[str], incumbents: Sequence[str]
    ) -> Array:
        rows = self._scorer.rows(index, candidates, keep=incumbents)
        self.token_evaluations += int(rows[0, 2].sum()) * len(candidates)
        return rows

    def _learn(self, incumbents: Sequence[str]) -> None:
        """Computes all rows of the best so far, after a restart."""
        if not incumbents:
            return
        batches = [
            self._scorer.rows(index, incumbents)
            for index in range(self._scorer.num_batches)
        ]
        whole = np.concatenate(batches, axis=-1)
        self._known |= dict(zip(incumbents, whole, strict=True))
