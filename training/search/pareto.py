"""The Pareto front of accuracy against a cost over all scored candidates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.run.directory import write_text


@dataclass(frozen=True)
class Point:
    """A candidate of the front.

    Attributes:
        architecture: its letters.
        accuracy: share of masked tokens predicted right.
        cost: what it costs, in the unit of the cost.
    """

    architecture: str
    accuracy: float
    cost: float


def pareto_front(
    accuracies: Mapping[str, float], cost: Callable[[str], float]
) -> list[Point]:
    """Returns the candidates that no other beats in one without losing in the other.

    Args:
        accuracies: architecture to accuracy.
        cost: of an architecture; less is better.

    Returns:
        By rising cost, and so by rising accuracy. Of candidates that are equal in both
        the first by name stands for all.
    """
    points = [Point(a, accuracy, cost(a)) for a, accuracy in accuracies.items()]
    points.sort(key=lambda p: (p.cost, -p.accuracy, p.architecture))
    front: list[Point] = []
    for point in points:
        if not front or point.accuracy > front[-1].accuracy:
            front.append(point)
    return front


def write_front(front: Sequence[Point], cost_name: str, file: Path) -> None:
    """Writes the front as a table of tab-separated values with a header."""
    lines = [f"{cost_name}\taccuracy\tarchitecture"]
    lines += [f"{p.cost:.10g}\t{p.accuracy:.6f}\t{p.architecture}" for p in front]
    write_text(file, "\n".join(lines) + "\n")
