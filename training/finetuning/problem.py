"""What the training loop asks of a task: classifier and span predictor answer alike."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Problem(Protocol):
    """A model with its examples.

    Attributes:
        model: the Keras model.
        lengths: tokens of each training row, int64 (N,).
        width: tokens that a row has at most.
        metric: name of the figure that counts.
        counts_hits: whether a training row is right or wrong; numbers are neither.
        chance: share of training rows that guessing gets right; None if there is none.
    """

    model: Any
    lengths: npt.NDArray[np.int64]
    width: int
    metric: str
    counts_hits: bool
    chance: float | None

    def batch(self, rows: Sequence[int] | Any, width: int) -> tuple[Any, Any]:
        """Returns inputs and targets of training rows: dicts of arrays (B, ...)."""

    def losses(self, inputs: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Returns loss and hit of every row, float32 (B,); it is traced."""

    def evaluate(self, label: str) -> dict[str, Any]:
        """Returns the figures on the dev part, `metric` among them."""

    def report(self, seed: int) -> dict[str, Any]:
        """Returns what a run tells besides its figures; `files` are written."""

    def provenance(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Returns what the stored model says of itself."""

    def summary(self) -> dict[str, Any]:
        """Returns what was lost of the texts."""

    def store(self, path: Path) -> None:
        """Writes the model as a preset directory."""
