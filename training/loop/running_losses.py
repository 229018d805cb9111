"""Running means of the training loss, by what a step made use of.

A supernet's loss is that of another path in every step. The running mean over the
steps that took a letter, anywhere or at one position, shows which layers learn.
"""

from collections.abc import Sequence

from training.run.figures import PREFIX

_WEIGHT = 0.02
"""Of a new loss: a mean over about the last fifty steps that used a part."""


class RunningLosses:
    """One running mean for each part that steps name.

    Args:
        values: means so far, as `values` gave them.
    """

    def __init__(self, values: dict[str, float] | None = None) -> None:
        self.values: dict[str, float] = dict(values or {})

    def add(self, parts: Sequence[str], loss: float) -> None:
        """Counts a step's loss for every part that it used, each once."""
        for part in dict.fromkeys(parts):
            mean = self.values.get(part, loss)
            self.values[part] = mean + _WEIGHT * (loss - mean)

    def figures(self) -> dict[str, float]:
        """Returns the means by the names under which they are logged."""
        return {f"{PREFIX}{part}": self.values[part] for part in sorted(self.values)}


def parts_of_path(path: str) -> list[str]:
    """Returns the parts that a step along a path uses: `c`, …, and `00_c`, …."""
    return [*path, *(f"{i:02d}_{letter}" for i, letter in enumerate(path))]
