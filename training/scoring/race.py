"""One generation's race: the rows that came in, who leads, who is given up.

`training.scoring.racing` asks for the rows and says when to look.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.command_line import CommandError
from training.scoring.racing_bound import MIN_ROWS, behind_known, planned_looks
from training.scoring.score import LOSS_DIGITS, Score, rank_key, score_of

Array = NDArray[np.float64]

# Of the sums of an example: which one the fitness is, its sign, so that more is better,
# and which one counts its positions.
_PLACES = {"loss": (0, -1.0, 2), "accuracy": (1, 1.0, 2), "accuracy_all": (4, 1.0, 5)}


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


class Race:
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
        self._whole = {candidate: known[candidate] for candidate in incumbents}
        self._parts: dict[str, list[Array]] = {
            candidate: [] for candidate in candidates
        }
        self._out: set[str] = set()
        self._seen = 0
        self._batches = 0
        self._looks: list[int] | None = None

    @property
    def running(self) -> list[str]:
        """Whom the next batch is for."""
        return [
            candidate
            for candidate in self._candidates
            if candidate not in self._out and candidate not in self._whole
        ]

    def add(self, rows: Array) -> None:
        """Takes the rows (runners, 6, rows) of one more batch."""
        for candidate, own in zip(self.running, rows, strict=True):
            self._parts[candidate].append(own)
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
        worths = {
            candidate: self._worth_so_far(candidate)
            for candidate in [*self._whole, *self.running]
        }
        best = sorted(worths, key=lambda candidate: -worths[candidate])[:top_k]
        return [candidate for candidate in best if candidate not in self._whole]

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
        whole = {
            candidate: self._whole[candidate]
            for candidate in self.ranked(self._whole)[:top_k]
        }
        # The last batch is filled up with rows that count nowhere.
        counts = next(iter(whole.values()))[_PLACES[self._fitness][2]] > 0
        seen = counts[: self._seen]
        if not counts[self._seen :].any() or seen.sum() < MIN_ROWS:
            return
        values = np.stack(
            [
                worth(np.concatenate(self._parts[candidate], axis=-1), self._fitness)[
                    seen
                ]
                for candidate in running
            ]
        )
        known = np.stack(
            [worth(rows, self._fitness)[counts] for rows in whole.values()]
        )
        behind = behind_known(values, known, level / self._planned / top_k)
        self._out.update(
            candidate for candidate, out in zip(running, behind, strict=True) if out
        )

    def _worth_so_far(self, candidate: str) -> float:
        rows = self._whole.get(candidate)
        if rows is None:
            rows = np.concatenate(self._parts[candidate], axis=-1)
        return float(worth(rows[:, : self._seen], self._fitness).sum())

    def ranked(self, whole: dict[str, Array]) -> list[str]:
        """Returns the names of whoever has all rows, best first."""
        scores = {
            candidate: score_of(candidate, rows.sum(axis=-1))
            for candidate, rows in whole.items()
        }
        return sorted(
            whole, key=lambda candidate: rank_key(scores[candidate], self._fitness)
        )

    def complete(self) -> dict[str, Array]:
        """Returns all rows of whoever saw the whole held-out set."""
        return {
            **{
                candidate: np.concatenate(parts, axis=-1)
                for candidate, parts in self._parts.items()
                if parts and candidate not in self._out
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
        sums = {candidate: rows.sum(axis=-1) for candidate, rows in complete.items()}
        ranked = self.ranked(complete)
        last = ranked[min(top_k, len(ranked)) - 1]
        by_candidate = {}
        for candidate in self._candidates:
            if candidate in complete:
                by_candidate[candidate] = score_of(candidate, sums[candidate].tolist())
                continue
            own = np.concatenate(self._parts[candidate], axis=-1)
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
                candidate,
                [loss, hits_sum, seen[0], loss_all, hits_all, seen[2]],
                eliminated=True,
            )
            by_candidate[candidate] = dataclasses.replace(
                score, accuracy_kept=None, loss_kept=None
            )
        return by_candidate
