"""What a search may propose: letters, length, fixed positions, constraints."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lvbert_tf.architecture import letters as known_letters

FREE = "?"
"""A position of a pattern that the search may choose."""

_MAX_COMPOSITIONS = 2_000_000


class InfeasibleError(ValueError):
    """No architecture of the space meets the constraints."""


@dataclass(frozen=True)
class Constraint:
    """A cost that must not exceed a maximum, summed over the layers.

    Parameters, FLOPs, milliseconds and numbers of layers are all of this kind, and the
    sum makes the least reachable value known before anything is proposed.

    Attributes:
        name: what it is called in messages and logs, for example `"params"`.
        letter_costs: what one layer of each letter costs.
        maximum: largest total allowed.
        base: what an architecture costs apart from its layers.
    """

    name: str
    letter_costs: Mapping[str, float]
    maximum: float
    base: float = 0.0

    def value(self, candidate: str) -> float:
        """Returns what an architecture costs, the base included."""
        # By counts, so that the sum does not depend on the order of the letters.
        costs = self.letter_costs
        return self.base + sum(
            candidate.count(letter) * costs[letter] for letter in sorted(set(candidate))
        )


class SearchSpace:
    """All architectures of one length over some letters, within constraints.

    Args:
        letters: the letters to choose from, at least one, each once.
        num_layers: L, layers of each architecture.
        pattern: L symbols, each a letter that stays or `"?"`; by default all free.
        constraints: costs with their maxima.

    Raises:
        ValueError: if an argument is malformed.
        InfeasibleError: if no architecture meets the constraints; the message names
            the least reachable value.

    Example:
        >>> SearchSpace("csf", 24).size
        282429536481
        >>> SearchSpace("sf", 4, pattern="s??f").size
        4
    """

    def __init__(
        self,
        letters: str = "csf",
        num_layers: int = 24,
        *,
        pattern: str | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        """Checks the arguments, and that something meets the constraints."""
        known = known_letters()
        unknown = [letter for letter in letters if letter not in known]
        if not letters or unknown or len(set(letters)) < len(letters):
            raise ValueError(
                "`letters` must hold different layer letters out of "
                f"{''.join(known)}. Received: letters={letters!r}"
            )
        if num_layers < 1:
            raise ValueError(
                f"`num_layers` must be at least 1. Received: num_layers={num_layers}"
            )
        pattern = FREE * num_layers if pattern is None else pattern
        if len(pattern) != num_layers:
            raise ValueError(
                f"`pattern` must have {num_layers} symbols, one per layer. "
                f"Received: pattern={pattern!r} with {len(pattern)}"
            )
        for index, symbol in enumerate(pattern):
            if symbol != FREE and symbol not in letters:
                raise ValueError(
                    f"`pattern` must hold letters of {letters!r} or {FREE!r}. "
                    f"Received: symbol {index} is {symbol!r}:\n"
                    f"  {pattern}\n  {' ' * index}^"
                )
        for constraint in constraints:
            lacking = [a for a in letters if a not in constraint.letter_costs]
            if lacking:
                raise ValueError(
                    f"Constraint {constraint.name!r} has no cost for letter "
                    f"{lacking[0]!r}. Received: {dict(constraint.letter_costs)}"
                )
        self.letters = letters
        self.num_layers = num_layers
        self.pattern = pattern
        self.constraints = tuple(constraints)
        self._free = [i for i, symbol in enumerate(pattern) if symbol == FREE]
        self._fixed = pattern.replace(FREE, "")
        self._check_feasible()

    @cached_property
    def size(self) -> int:
        """Returns how many architectures keep to the pattern and the constraints."""
        if not self.constraints:
            size: int = len(self.letters) ** len(self._free)
            return size
        return sum(ways for _, ways in self._compositions)

    def __contains__(self, candidate: object) -> bool:
        """Tells whether an architecture (its letters) belongs to the space."""
        return (
            isinstance(candidate, str)
            and len(candidate) == self.num_layers
            and all(
                letter in self.letters and symbol in (FREE, letter)
                for letter, symbol in zip(candidate, self.pattern, strict=True)
            )
            and self.meets_constraints(candidate)
        )

    def meets_constraints(self, candidate: str) -> bool:
        """Tells whether an architecture stays within every maximum."""
        return all(c.value(candidate) <= c.maximum for c in self.constraints)

    def sample(self, generator: np.random.Generator) -> str:
        """Draws an architecture, each of the space with the same probability."""
        count = len(self._free)
        if not self.constraints:
            codes = generator.integers(len(self.letters), size=count)
            return self._fill(self.letters[code] for code in codes)
        # First how often each letter occurs, then in which order.
        ticket = _random_below(generator, self.size)
        for counts, ways in self._compositions:  # noqa: B007, `counts` is what we want
            ticket -= ways
            if ticket < 0:
                break
        chosen = np.repeat(np.arange(len(self.letters)), counts)
        return self._fill(self.letters[code] for code in generator.permutation(chosen))

    def crossover(
        self, first: str, second: str, generator: np.random.Generator
    ) -> str | None:
        """Crosses two architectures of the space, position by position.

        Each position comes from either parent with probability one half.

        Returns:
            The child, or None if it breaks a constraint.
        """
        from_first = generator.random(self.num_layers) < 0.5
        child = "".join(
            a if take else b
            for a, b, take in zip(first, second, from_first, strict=True)
        )
        return child if self.meets_constraints(child) else None

    def mutate(
        self, candidate: str, probability: float, generator: np.random.Generator
    ) -> str | None:
        """Changes each free position to another letter with a probability.

        Args:
            candidate: an architecture of the space.
            probability: of each position's change, 0 to 1.
            generator: where the randomness comes from.

        Returns:
            The mutant (it may equal the original), or None if it breaks a constraint.
        """
        changes = generator.random(self.num_layers) < probability
        # Drawn for every position, so that the stream does not depend on the letters.
        shifts = generator.integers(1, max(2, len(self.letters)), size=self.num_layers)
        mutant = list(candidate)
        for position in self._free:
            if changes[position]:
                code = self.letters.index(mutant[position]) + int(shifts[position])
                mutant[position] = self.letters[code % len(self.letters)]
        result = "".join(mutant)
        return result if self.meets_constraints(result) else None

    def enumerate(self) -> Iterator[str]:
        """Yields every architecture of the space in a fixed order."""
        if not self.constraints:
            for chosen in itertools.product(self.letters, repeat=len(self._free)):
                yield self._fill(iter(chosen))
            return
        # By counts: the whole product may be far larger than what is allowed.
        for counts, _ in self._compositions:
            for order in _orders(np.repeat(np.arange(len(counts)), counts).tolist()):
                yield self._fill(self.letters[code] for code in order)

    def describe(self) -> dict[str, object]:
        """Returns what defines the space, for logs and for comparing states."""
        return {
            "letters": self.letters,
            "num_layers": self.num_layers,
            "pattern": self.pattern,
            "constraints": [
                {
                    "name": c.name,
                    "maximum": c.maximum,
                    "base": c.base,
                    "letter_costs": {a: c.letter_costs[a] for a in self.letters},
                }
                for c in self.constraints
            ],
        }

    def _fill(self, chosen: Iterator[str]) -> str:
        return "".join(s if s != FREE else next(chosen) for s in self.pattern)

    def least(self, constraint: Constraint) -> float:
        """Returns the smallest cost that the pattern allows."""
        cheapest = min(self.letters, key=lambda a: (constraint.letter_costs[a], a))
        return constraint.value(self._fixed + cheapest * len(self._free))

    @cached_property
    def _compositions(self) -> list[tuple[tuple[int, ...], int]]:
        """Returns how often each letter may occur, and in how many ways.

        Costs depend on the counts alone, so this list is the whole feasible space.
        """
        free, kinds = len(self._free), len(self.letters)
        if math.comb(free + kinds - 1, kinds - 1) > _MAX_COMPOSITIONS:
            raise ValueError(
                "`constraints` leave more compositions than this search can count; "
                f"use fewer letters or a pattern. Received: {kinds} letters at {free} "
                "free positions"
            )
        result = []
        for counts in _counts(free, kinds):
            if self.meets_constraints(self._fixed + _spell(self.letters, counts)):
                result.append((counts, _arrangements(counts)))
        return result

    def _check_feasible(self) -> None:
        for constraint in self.constraints:
            least = self.least(constraint)
            if least > constraint.maximum:
                raise InfeasibleError(
                    f"No architecture meets {constraint.name} <= "
                    f"{_shown(constraint.maximum)}: the least reachable value is "
                    f"{_shown(least)}"
                )
        if len(self.constraints) > 1 and not self._compositions:
            *others, last = self.constraints
            rest = SearchSpace(
                self.letters,
                self.num_layers,
                pattern=self.pattern,
                constraints=tuple(others),
            )
            least = min(
                last.value(self._fixed + _spell(self.letters, counts))
                for counts, _ in rest._compositions
            )
            together = " and ".join(f"{c.name} <= {_shown(c.maximum)}" for c in others)
            raise InfeasibleError(
                f"No architecture meets {last.name} <= {_shown(last.maximum)} together "
                f"with {together}: the least reachable {last.name} is then "
                f"{_shown(least)}"
            )


def _shown(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.6g}"


def _spell(letters: str, counts: Sequence[int]) -> str:
    return "".join(a * count for a, count in zip(letters, counts, strict=True))


def _counts(total: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """Yields every way to write `total` as an ordered sum of `kinds` numbers."""
    if kinds == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _counts(total - first, kinds - 1):
            yield (first, *rest)


def _arrangements(counts: Sequence[int]) -> int:
    """Returns in how many orders so many letters of each kind can stand."""
    ways, placed = 1, 0
    for count in counts:
        placed += count
        ways *= math.comb(placed, count)
    return ways


def _orders(codes: list[int]) -> Iterator[list[int]]:
    """Yields every different order of `codes`, which start sorted."""
    while True:
        yield codes
        # The next one in lexicographic order: raise the last place that can be raised.
        place = len(codes) - 2
        while place >= 0 and codes[place] >= codes[place + 1]:
            place -= 1
        if place < 0:
            return
        other = max(i for i in range(place + 1, len(codes)) if codes[i] > codes[place])
        codes[place], codes[other] = codes[other], codes[place]
        codes[place + 1 :] = reversed(codes[place + 1 :])


def _random_below(generator: np.random.Generator, limit: int) -> int:
    """Draws a whole number from 0 to `limit` - 1 evenly, of any size."""
    bits = limit.bit_length()
    while True:  # each turn succeeds with probability above one half
        drawn = int.from_bytes(generator.bytes((bits + 7) // 8), "little")
        drawn &= (1 << bits) - 1
        if drawn < limit:
            return drawn
