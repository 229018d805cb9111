"""Whether a supernet has learned: losses of random paths, by letter and by depth."""

from collections.abc import Iterable, Mapping
from typing import Any


def path_losses(losses: Mapping[str, float], letters: str) -> dict[str, Any]:
    """Averages losses over the paths that take a letter at a position.

    Args:
        losses: path to its loss, nats a position that shows [MASK].
        letters: of the supernet.

    Returns:
        `paths`, how many; `mean_loss`; `by_letter`, letter to the mean loss over paths,
        each counted as often as it takes the letter; `by_position`, for each position
        and letter the mean loss of the paths that take it there, or None where no path
        does.
    """
    length = len(next(iter(losses)))
    return {
        "paths": len(losses),
        "mean_loss": _mean(losses.values()),
        "by_letter": {
            letter: _mean(
                loss for path, loss in losses.items() for _ in range(path.count(letter))
            )
            for letter in letters
        },
        "by_position": [
            {
                letter: _mean(
                    loss for path, loss in losses.items() if path[i] == letter
                )
                for letter in letters
            }
            for i in range(length)
        ],
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
