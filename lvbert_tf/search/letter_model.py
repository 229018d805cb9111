"""A model of scores that adds up letters by position and adjacent pairs of letters.

Such a sum has a best architecture that dynamic programming finds exactly, also within
constraints: their costs depend only on how often each letter occurs, so the state of
the programme is the last letter and the counts so far.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvbert_tf.search.space import FREE, SearchSpace

_MAX_STATES = 5_000_000


@dataclass(frozen=True)
class LetterModel:
    """What each letter at each position is worth, and each pair of neighbours.

    Attributes:
        letters: the letters, n of them.
        constant: the value before anything is added.
        positions: float64 (L, n).
        pairs: float64 (L - 1, n, n): the letter below, then the letter above.
    """

    letters: str
    constant: float
    positions: NDArray[np.float64]
    pairs: NDArray[np.float64]

    def predict(self, candidate: str) -> float:
        """Returns the sum for an architecture of L letters."""
        codes = [self.letters.index(letter) for letter in candidate]
        value = self.constant + sum(
            float(self.positions[i, code]) for i, code in enumerate(codes)
        )
        return value + sum(
            float(self.pairs[i, below, above])
            for i, (below, above) in enumerate(itertools.pairwise(codes))
        )

    def best(self, space: SearchSpace) -> str:
        """Returns the architecture of the space with the largest sum.

        Args:
            space: of the same letters and length; its pattern and its constraints are
                kept to.

        Raises:
            ValueError: if the space has other letters or another length, or is too
                large to be walked through.
        """
        length = len(self.positions)
        if space.letters != self.letters or space.num_layers != length:
            raise ValueError(
                f"The model is of {length} layers of {self.letters!r}. Received a "
                f"space of {space.num_layers} layers of {space.letters!r}."
            )
        count = len(self.letters)
        # (last letter, how often each letter so far) -> (value, letters)
        layer: dict[tuple[int, tuple[int, ...]], tuple[float, str]] = {}
        for code in self._allowed(space, 0):
            counts = tuple(int(code == other) for other in range(count))
            layer[code, counts] = (float(self.positions[0, code]), self.letters[code])
        states = len(layer)
        for i in range(1, length):
            above: dict[tuple[int, tuple[int, ...]], tuple[float, str]] = {}
            for (last, counts), (value, path) in layer.items():
                for code in self._allowed(space, i):
                    now = (*counts[:code], counts[code] + 1, *counts[code + 1 :])
                    if not space.constraints:
                        now = (0,) * count  # nothing depends on the counts
                    total = (
                        value
                        + float(self.positions[i, code])
                        + float(self.pairs[i - 1, last, code])
                    )
                    known = above.get((code, now))
                    if known is None or total > known[0]:
                        above[code, now] = (total, path + self.letters[code])
            layer = above
            states += len(layer)
            if states > _MAX_STATES:
                raise ValueError(
                    "`space` has more states than dynamic programming can walk through "
                    f"here. Received: {count} letters at {length} layers with "
                    "constraints"
                )
        ranked = sorted(layer.values(), key=lambda entry: (-entry[0], entry[1]))
        for _, path in ranked:
            if space.meets_constraints(path):
                return path
        raise ValueError(
            "`space` must have an architecture that meets its constraints. Received: "
            f"{[f'{c.name} <= {c.maximum:g}' for c in space.constraints]}"
        )

    def _allowed(self, space: SearchSpace, position: int) -> Sequence[int]:
        symbol = space.pattern[position]
        if symbol == FREE:
            return range(len(self.letters))
        return [self.letters.index(symbol)]
