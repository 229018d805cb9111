"""The Pareto front of fitness against a cost over all scored candidates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.files import write_text
from training.scoring.score import Score


@dataclass(frozen=True)
class Point:
    """A candidate of the front.

    Attributes:
        architecture: its letters.
        fitness: what the search ranks by; more is better.
        cost: what it costs, in the unit of the cost.
    """

    architecture: str
    fitness: float
    cost: float


def pareto_front(
    fitness: Mapping[str, float], cost: Callable[[str], float]
) -> list[Point]:
    """Returns the candidates that no other beats in one without losing in the other.

    Args:
        fitness: architecture to fitness; more is better.
        cost: of an architecture; less is better.

    Returns:
        By rising cost, and so by rising fitness. Of candidates that are equal in both
        the first by name stands for all.
    """
    points = [Point(a, value, cost(a)) for a, value in fitness.items()]
    points.sort(key=lambda p: (p.cost, -p.fitness, p.architecture))
    front: list[Point] = []
    for point in points:
        if not front or point.fitness > front[-1].fitness:
            front.append(point)
    return front


def write_front(
    front: Sequence[tuple[Point, Score]], cost_name: str, file: Path
) -> None:
    """Writes the front as a table of tab-separated values with a header."""
    lines = [f"{cost_name}\tloss\taccuracy\tarchitecture"]
    lines += [
        f"{p.cost:.10g}\t{score.loss:.6f}\t{score.accuracy:.6f}\t{p.architecture}"
        for p, score in front
    ]
    write_text(file, "\n".join(lines) + "\n")
