"""Scores of architectures with weights inherited from a supernet.

A `Scorer` answers how good candidates are; the search knows only that protocol. A
`RowScorer` answers for one batch of held-out examples at a time, which racing needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from command_line import CommandError
from training.metrics.masked_lm import masked_lm_figures, standard_error


@dataclass(frozen=True)
class Score:
    """How well one architecture predicts the masked tokens of the held-out set.

    Attributes:
        architecture: its letters.
        accuracy: share of the masked tokens predicted right.
        loss: mean cross-entropy, nats per masked token.
        standard_error: of the accuracy.
        masked_tokens: how many were predicted.
        eliminated: whether racing gave it up after a part of the held-out set; the
            accuracy is then an estimate, below that of the candidates it lost to.
    """

    architecture: str
    accuracy: float
    loss: float
    standard_error: float
    masked_tokens: int
    eliminated: bool = False


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
        self, number: int, candidates: Sequence[str], keep: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """Returns the sums of each example of a batch.

        Args:
            number: of the batch.
            candidates: what to score.
            keep: candidates like which later ones will be.

        Returns:
            float64 (candidates, 3, rows): loss, correct, number of masked tokens.
        """


def score_of(
    candidate: str,
    loss_sum: float,
    correct: float,
    masked_tokens: float,
) -> Score:
    """Returns the score that sums over the held-out set amount to.

    Raises:
        CommandError: if nothing is masked, or the loss is not finite.
    """
    figures = masked_lm_figures(
        {"loss_sum": loss_sum, "correct": correct, "masked_tokens": masked_tokens}
    )
    if not np.isfinite(figures["loss"]):
        raise CommandError(
            f"the loss of {candidate} is {figures['loss']}: the supernet's weights "
            "are damaged, or its training diverged"
        )
    return Score(
        architecture=candidate,
        accuracy=figures["accuracy"],
        loss=figures["loss"],
        standard_error=standard_error(figures["accuracy"], masked_tokens),
        masked_tokens=int(masked_tokens),
    )
