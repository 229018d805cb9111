"""Scores of architectures with weights inherited from a supernet.

A `Scorer` answers how good candidates are; the search knows only that protocol. A
`RowScorer` answers for one batch of held-out examples at a time, which racing needs.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from common.command_line import CommandError
from training.metrics.masked_lm import masked_lm_figures, standard_error


@dataclass(frozen=True)
class Score:
    """How well one architecture predicts the tokens of the held-out set.

    Attributes:
        architecture: its letters.
        accuracy: share of the positions showing [MASK] that are predicted right.
        loss: mean cross-entropy there, nats.
        standard_error: of the accuracy.
        masked_tokens: how many such positions there are.
        accuracy_all: accuracy over all predicted positions, as in the paper; those that
            show their own token are counted with.
        loss_all: mean cross-entropy over all of them, nats.
        accuracy_kept: accuracy at the positions that show their own token; None if
            there are none.
        loss_kept: mean cross-entropy there, or None.
        eliminated: whether racing gave it up after a part of the held-out set; the
            figures are then estimates, worse than those of the candidates it lost to.
    """

    architecture: str
    accuracy: float
    loss: float
    standard_error: float
    masked_tokens: int
    accuracy_all: float
    loss_all: float
    accuracy_kept: float | None = None
    loss_kept: float | None = None
    eliminated: bool = False


FITNESS = ("loss", "accuracy", "accuracy_all")
"""By what a search can rank: see the attributes of `Score`."""

LOSS_DIGITS = 5
"""Losses are compared as rounded to so many digits. Devices, batch sizes and threads
move a mean of float32 losses in the seventh; the standard error of one over ten
thousand tokens is in the second."""


def fitness_of(score: Score, fitness: str) -> float:
    """Returns what a search ranks by; more is better.

    Args:
        score: of a candidate.
        fitness: one of `FITNESS`. A loss counts negative.
    """
    if fitness == "loss":
        return -round(score.loss, LOSS_DIGITS)
    return float(getattr(score, fitness))


def rank_key(score: Score, fitness: str) -> tuple[float, float, str]:
    """Returns what sorts scores, the best first; equal fitness by loss, then by name.

    Args:
        score: of a candidate.
        fitness: one of `FITNESS`.
    """
    return (
        -fitness_of(score, fitness),
        round(score.loss, LOSS_DIGITS),
        score.architecture,
    )


def figures_of(score: Score) -> dict[str, Any]:
    """Returns the figures of a score that saw the whole held-out set."""
    figures = dataclasses.asdict(score)
    del figures["eliminated"]
    return figures


OnScored = Callable[[Score], None]
"""Called with each score as it becomes known."""

OnWork = Callable[[float], None]
"""Called with the share, 0 to 1, of a call's work that is done."""


class Scorer(Protocol):
    """Scores candidates; equal identities mean equal scores."""

    @property
    def identity(self) -> str:
        """Hash of all that a score depends on, apart from the architecture."""

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
            incumbents: the best so far. A scorer may use that new candidates are like
                them, or that they matter only if they beat one of them.
            on_work: told how far the work is.
        """


class RowScorer(Protocol):
    """Scores candidates on one batch of held-out examples at a time."""

    @property
    def num_batches(self) -> int:
        """How many batches the held-out set has."""

    @property
    def identity(self) -> str:
        """As of a `Scorer`."""

    def rows(
        self, index: int, candidates: Sequence[str], keep: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """Returns the sums of each example of a batch.

        Args:
            index: of the batch.
            candidates: what to score.
            keep: candidates like which later ones will be.

        Returns:
            float64 (candidates, 6, rows): loss, hits and number of the positions that
            show [MASK]; then the same of all predicted positions.
        """


SUMS = (
    *("loss_sum", "correct", "masked_tokens"),
    *("loss_sum_all", "correct_all", "predicted_tokens"),
)
"""Names of the six sums of `RowScorer.rows`, in their order."""


def score_of(candidate: str, sums: Sequence[float], eliminated: bool = False) -> Score:
    """Returns the score that sums over the held-out set amount to.

    Args:
        candidate: the architecture.
        sums: six, as `SUMS` names them.
        eliminated: see `Score`.

    Raises:
        CommandError: if nothing is masked, or the loss is not finite.
    """
    figures = masked_lm_figures(dict(zip(SUMS, sums, strict=True)))
    if not np.isfinite(figures["loss_all"]):
        raise CommandError(
            f"the loss of {candidate} is {figures['loss_all']}: the supernet's weights "
            "are damaged, or its training diverged"
        )
    return Score(
        architecture=candidate,
        accuracy=figures["accuracy"],
        loss=figures["loss"],
        standard_error=standard_error(figures["accuracy"], figures["masked_tokens"]),
        masked_tokens=int(figures["masked_tokens"]),
        accuracy_all=figures["accuracy_all"],
        loss_all=figures["loss_all"],
        accuracy_kept=figures["accuracy_kept"],
        loss_kept=figures["loss_kept"],
        eliminated=eliminated,
    )
