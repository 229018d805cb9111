"""How long functions take, in turn, so that a busy machine slows all alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 20
"""At least so many; more until `SECONDS` have passed, for quick functions."""
SECONDS = 0.5
_MOST_ROUNDS = 400


@dataclass(frozen=True)
class Timing:
    """Times of one function.

    Attributes:
        milliseconds: the median.
        ratios: its times, each divided by that of the first function in that round.
    """

    milliseconds: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of `ratios`."""
        return statistics.median(self.ratios)


def interleaved(
    functions: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Times functions, each once a round, after two calls that do not count.

    Args:
        functions: what to time, by name; the first is what others are compared with.
        rounds: the least number of rounds.
    """
    for function in functions.values():
        function()
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    started, done = time.perf_counter(), 0
    while done < rounds or (
        done < _MOST_ROUNDS and time.perf_counter() - started < SECONDS
    ):
        done += 1
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(1000 * (time.perf_counter() - start))
    first = next(iter(times.values()))
    return {
        name: Timing(
            statistics.median(values),
            tuple(own / base for own, base in zip(values, first, strict=True)),
        )
        for name, values in times.items()
    }
