"""What speaks against trusting the scores of a supernet."""

import math
import sys
from collections.abc import Sequence

from training.scoring.score import Score

SURE = 2.0
"""Standard errors by which paths must be better than token frequencies."""


class SupernetDoubts:
    """Warns on stderr, once of each doubt, and remembers what it said.

    Args:
        unigram_loss: of the training text's token frequencies, nats.
        step: how far the supernet was trained.
        steps: how far its configuration wants it trained.
    """

    def __init__(self, unigram_loss: float, step: int, steps: int) -> None:
        self._unigram_loss = unigram_loss
        self._looked = False
        self.warnings: list[str] = []
        """Everything that was said."""
        if step < steps:
            self._say(f"the supernet's training is unfinished: step {step} of {steps}")

    def look(self, scores: Sequence[Score]) -> None:
        """Compares the paths of one generation with the token frequencies.

        A supernet has left the unigram loss when its median path is better by more
        than what `masked_tokens` positions leave to chance. Both losses are of the
        same positions; that their difference spreads by about one nat a position is
        an assumption.

        Args:
            scores: of some paths; those that a race gave up are left out.
        """
        whole = sorted(s.loss for s in scores if not s.eliminated)
        if self._looked or not whole:
            return
        self._looked = True
        median = whole[len(whole) // 2]
        error = 1.0 / math.sqrt(max(s.masked_tokens for s in scores))
        if median > self._unigram_loss - SURE * error:
            self._say(
                "the supernet has not left the unigram loss: its median path has loss "
                f"{median:.4f} where the training text's token frequencies alone have "
                f"{self._unigram_loss:.4f}, within {SURE * error:.4f} of what the "
                f"{max(s.masked_tokens for s in scores)} masked tokens can tell apart. "
                "Its order of architectures says little: train it longer"
            )

    def _say(self, warning: str) -> None:
        self.warnings.append(warning)
        print(f"warning: {warning}", file=sys.stderr, flush=True)
