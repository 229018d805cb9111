"""What every search has in common: ask and tell, the top k, its state.

A search proposes a generation of architectures (`ask`) and learns their fitness
(`tell`); who scores them, and how, is not its business.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lvbert_tf.search.space import SearchSpace

# A space of at most this many architectures is listed instead of guessed at, so that
# its end is known exactly.
_LISTED_SIZE = 50_000
_TRIES_PER_CANDIDATE = 200


@dataclass(frozen=True)
class Candidate:
    """A scored architecture.

    Attributes:
        architecture: its letters.
        fitness: what it was told; larger is better.
        iteration: in which generation it was scored, from 1.
        origin: `"initial"`, `"random"`, `"crossover"`, `"mutation"` or `"suggestion"`.
        cost: what decides between equal fitness; less is better.
    """

    architecture: str
    fitness: float
    iteration: int
    origin: str
    cost: float = 0.0

    @property
    def rank(self) -> tuple[float, float, str]:
        """Returns what sorts candidates, best first: never the order of arrival."""
        return (-self.fitness, self.cost, self.architecture)


@dataclass(frozen=True)
class IterationSummary:
    """What one generation brought.

    Attributes:
        iteration: its number, from 1.
        best: the best fitness so far.
        best_architecture: its letters.
        mean: mean fitness of this generation.
        top_mean: mean fitness of the top k so far.
        new: candidates scored in this generation.
        repeated: proposals thrown away because they had been proposed before.
        rejected: proposals thrown away because they broke a constraint.
        evaluations: candidates scored so far.
        origins: how many of the generation came from which operator.
        improved: whether the best is of this generation.
    """

    iteration: int
    best: float
    best_architecture: str
    mean: float
    top_mean: float
    new: int
    repeated: int
    rejected: int
    evaluations: int
    origins: dict[str, int]
    improved: bool


class Search(ABC):
    """What evolution and random search share: bookkeeping, top k, state.

    Args:
        space: what may be proposed.
        population: candidates of the first generation (of each, for random search).
        iterations: generations that are scored.
        top_k: how many of the best are kept.
        seed: of all randomness.
        patience: end after so many generations without a better best; None never.
        initial: architectures for the first generation, ahead of random ones.

    Raises:
        ValueError: if a number is out of range, or an initial one not in the space.
    """

    method: str

    def __init__(
        self,
        space: SearchSpace,
        *,
        population: int = 50,
        iterations: int = 20,
        top_k: int = 10,
        seed: int = 0,
        patience: int | None = None,
        initial: Sequence[str] = (),
    ) -> None:
        """Checks the settings; nothing is drawn yet."""
        for name, value in (
            ("population", population),
            ("iterations", iterations),
            ("top_k", top_k),
            ("patience", 1 if patience is None else patience),
        ):
            if value < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: {name}={value}"
                )
        if seed < 0:
            raise ValueError(f"`seed` must be 0 or more. Received: seed={seed}")
        for candidate in initial:
            if candidate not in space:
                raise ValueError(
                    f"`initial` must be of the search space. Received: {candidate!r}"
                )
        self.space = space
        self.population = population
        self.iterations = iterations
        self.top_k = top_k
        self.seed = seed
        self.patience = patience
        self.initial = tuple(dict.fromkeys(initial))
        self._generator = np.random.default_rng(seed)
        self._iteration = 0  # generations told
        self._seen: dict[str, None] = {}  # everything ever proposed, in order
        self._pending: dict[str, str] = {}  # asked and not yet told: letters -> origin
        self._repeated = 0
        self._rejected = 0
        self._evaluations = 0
        self._top: list[Candidate] = []
        self._last_improvement = 0
        self._exhausted = False

    @property
    def top(self) -> tuple[Candidate, ...]:
        """Returns the best `top_k` so far, best first; see `Candidate.rank`."""
        return tuple(self._top)

    @property
    def pending(self) -> dict[str, str]:
        """Returns what was asked and not yet told: architecture to origin."""
        return dict(self._pending)

    @property
    def iteration(self) -> int:
        """Returns how many generations have been told."""
        return self._iteration

    @property
    def evaluations(self) -> int:
        """Returns how many candidates have been scored."""
        return self._evaluations

    @property
    def finished(self) -> str | None:
        """Returns why the search ended, or None if it goes on.

        `"iterations"`: all are done; `"exhausted"`: the space holds nothing new;
        `"patience"`: no better best for that long.
        """
        if self._pending:
            return None
        if self._iteration >= self.iterations:
            return "iterations"
        if self._exhausted or len(self._seen) >= self.space.size:
            return "exhausted"
        if (
            self.patience is not None
            and self._iteration - self._last_improvement >= self.patience
        ):
            return "patience"
        return None

    def ask(self, suggestions: Sequence[str] = ()) -> list[str]:
        """Returns the next generation to score; empty if the search has ended.

        Every architecture is one that was never asked before. Until `tell`, it returns
        the same ones again.

        Args:
            suggestions: architectures to add to the generation, beyond its size, where
                they are new and of the space.
        """
        if not self._pending and self.finished is None:
            self._repeated = self._rejected = 0
            if self._iteration == 0:
                for candidate in self.initial[: self.population]:
                    self._add(candidate, "initial")
                self._fill(self.population)
            else:
                self._propose()
            for candidate in suggestions:
                if candidate in self.space and candidate not in self._seen:
                    self._add(candidate, "suggestion")
        return list(self._pending)

    def tell(
        self, fitness: Mapping[str, float], costs: Mapping[str, float] | None = None
    ) -> IterationSummary:
        """Takes the fitness of the generation that was asked.

        Args:
            fitness: of exactly the candidates that `ask` returned; larger is better.
            costs: of the same; less is better where the fitness is equal.

        Returns:
            What the generation brought.

        Raises:
            ValueError: if other candidates than asked are told, or a number is NaN.
        """
        if set(fitness) != set(self._pending) or not fitness:
            unlike = sorted(set(fitness) ^ set(self._pending))
            raise ValueError(
                f"`fitness` must be told for the {len(self._pending)} candidates that "
                f"were asked. Received: {len(fitness)}; the first that differ: "
                f"{unlike[:3]}"
            )
        for candidate, value in fitness.items():
            if math.isnan(value):
                raise ValueError(
                    "Every fitness must be a number. "
                    f"Received: {candidate!r}: {value!r}"
                )
        costs = dict.fromkeys(fitness, 0.0) if costs is None else costs
        if set(costs) != set(fitness) or any(map(math.isnan, costs.values())):
            raise ValueError(
                "`costs` must be numbers of the candidates that `fitness` is of. "
                f"Received: {dict(costs)!r}"
            )
        best_before = self._top[0] if self._top else None
        self._iteration += 1
        scored = [
            Candidate(
                candidate,
                float(fitness[candidate]),
                self._iteration,
                origin,
                float(costs[candidate]),
            )
            for candidate, origin in self._pending.items()
        ]
        self._top = sorted([*self._top, *scored], key=lambda c: c.rank)[: self.top_k]
        self._evaluations += len(scored)
        # Another name alone is no improvement.
        improved = best_before is None or self._top[0].rank[:2] < best_before.rank[:2]
        if improved:
            self._last_improvement = self._iteration
        self._pending = {}
        origins: dict[str, int] = {}
        for origin in (candidate.origin for candidate in scored):
            origins[origin] = origins.get(origin, 0) + 1
        return IterationSummary(
            iteration=self._iteration,
            best=self._top[0].fitness,
            best_architecture=self._top[0].architecture,
            mean=_mean([c.fitness for c in scored]),
            top_mean=_mean([c.fitness for c in self._top]),
            new=len(scored),
            repeated=self._repeated,
            rejected=self._rejected,
            evaluations=self._evaluations,
            origins=origins,
            improved=improved,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the search knows, as JSON-able values."""
        return {
            "settings": self._settings(),
            "generator": self._generator.bit_generator.state,
            "iteration": self._iteration,
            "seen": list(self._seen),
            "pending": dict(self._pending),
            "repeated": self._repeated,
            "rejected": self._rejected,
            "evaluations": self._evaluations,
            "top": [asdict(candidate) for candidate in self._top],
            "last_improvement": self._last_improvement,
            "exhausted": self._exhausted,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state_dict()`.

        More (or fewer) iterations and another patience than the state's are allowed;
        every other setting must be the same.

        Raises:
            ValueError: if the state is of other settings; the message names them.
        """
        ours = json.loads(json.dumps(self._settings()))
        theirs = json.loads(json.dumps(state["settings"]))
        for name in ("iterations", "patience"):
            ours.pop(name), theirs.pop(name)
        unlike = [
            f"{name}: {theirs.get(name)!r} there, {ours.get(name)!r} here"
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        ]
        if unlike:
            raise ValueError(
                f"`state` must be of a search like this one. Received: "
                f"{'; '.join(unlike)}"
            )
        self._generator.bit_generator.state = state["generator"]
        self._iteration = state["iteration"]
        self._seen = dict.fromkeys(state["seen"])
        self._pending = dict(state["pending"])
        self._repeated = state["repeated"]
        self._rejected = state["rejected"]
        self._evaluations = state["evaluations"]
        self._top = [Candidate(**candidate) for candidate in state["top"]]
        self._last_improvement = state["last_improvement"]
        self._exhausted = state["exhausted"]

    @abstractmethod
    def _propose(self) -> None:
        """Adds the candidates of a later generation to the pending ones."""

    def _settings(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "space": self.space.describe(),
            "population": self.population,
            "iterations": self.iterations,
            "top_k": self.top_k,
            "seed": self.seed,
            "patience": self.patience,
            "initial": list(self.initial),
        }

    def _add(self, candidate: str | None, origin: str) -> bool:
        """Takes a proposal if it is new and allowed."""
        if candidate is None:
            self._rejected += 1
            return False
        if candidate in self._seen:
            self._repeated += 1
            return False
        self._seen[candidate] = None
        self._pending[candidate] = origin
        return True

    def _add_many(
        self, count: int, propose: Callable[[], str | None], origin: str
    ) -> None:
        """Takes up to `count` new proposals within a bounded number of tries."""
        added = 0
        for _ in range(count * _TRIES_PER_CANDIDATE):
            if added == count or len(self._seen) >= self.space.size:
                return
            added += self._add(propose(), origin)

    def _fill(self, size: int) -> None:
        """Draws new random candidates until the generation has `size` of them."""
        missing = size - len(self._pending)
        if missing <= 0:
            return
        if self.space.size <= _LISTED_SIZE:
            left = [c for c in self.space.enumerate() if c not in self._seen]
            for index in self._generator.permutation(len(left))[:missing]:
                self._add(left[index], "random")
        else:
            self._add_many(
                missing, lambda: self.space.sample(self._generator), "random"
            )
        # Even a listed space may end here: then nothing is left at all.
        self._exhausted = not self._pending


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
