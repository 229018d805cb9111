"""Evolutionary search (the paper's Algorithm 1) and random search, by ask and tell.

A search proposes a generation of architectures (`ask`) and learns their fitness
(`tell`); who scores them, and how, is not its business:

    search = EvolutionSearch(SearchSpace("csf", 24), seed=0)
    while generation := search.ask():
        summary = search.tell({candidate: score(candidate) for candidate in generation})
    search.top[0]

Everything it does is a function of its settings, its seed and the fitness it is told.
`state_dict()` is plain JSON, and a search that loads it goes on as if never stopped.

References:
    LV-BERT (Yu et al., 2021), Algorithm 1 and section 3.3; operators as in Single Path
    One-Shot (Guo et al., 2020).
"""

from typing import Any

from lvbert_tf.search.ask_tell import Candidate, IterationSummary, Search
from lvbert_tf.search.space import SearchSpace

__all__ = [
    "Candidate",
    "EvolutionSearch",
    "IterationSummary",
    "RandomSearch",
    "Search",
]


class RandomSearch(Search):
    """The paper's baseline: every generation is drawn evenly from the space."""

    method = "random"

    def _propose(self) -> None:
        self._fill(self.population)


class EvolutionSearch(Search):
    """The paper's Algorithm 1.

    The first generation is random. Each later one holds `crossover` children of two
    different parents drawn from the top k, and `mutation` mutants of one, in which each
    layer changes to another letter with probability `mutation_probability`. Nothing is
    proposed twice; where the operators find too little that is new within a bounded
    number of tries, random candidates make up the number.

    Args:
        space: what may be proposed.
        crossover: children per generation, the paper's N_cro.
        mutation: mutants per generation, the paper's N_mut.
        mutation_probability: per layer, the paper's p.
        **settings: those of `Search`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    method = "evolution"

    def __init__(
        self,
        space: SearchSpace,
        *,
        crossover: int = 25,
        mutation: int = 25,
        mutation_probability: float = 0.1,
        **settings: Any,
    ) -> None:
        """Checks the settings; nothing is drawn yet."""
        super().__init__(space, **settings)
        if crossover < 0 or mutation < 0 or crossover + mutation < 1:
            raise ValueError(
                "`crossover` and `mutation` must be 0 or more, and not both 0. "
                f"Received: crossover={crossover}, mutation={mutation}"
            )
        if not 0.0 <= mutation_probability <= 1.0:
            raise ValueError(
                "`mutation_probability` must be between 0 and 1. "
                f"Received: mutation_probability={mutation_probability}"
            )
        self.crossover = crossover
        self.mutation = mutation
        self.mutation_probability = mutation_probability

    def _settings(self) -> dict[str, Any]:
        return {
            **super()._settings(),
            "crossover": self.crossover,
            "mutation": self.mutation,
            "mutation_probability": self.mutation_probability,
        }

    def _propose(self) -> None:
        parents = [candidate.architecture for candidate in self._top]
        if len(parents) > 1:
            self._add_many(self.crossover, lambda: self._cross(parents), "crossover")
        self._add_many(self.mutation, lambda: self._mutate(parents), "mutation")
        self._fill(self.crossover + self.mutation)

    def _cross(self, parents: list[str]) -> str | None:
        first, second = self._generator.choice(len(parents), size=2, replace=False)
        return self.space.crossover(parents[first], parents[second], self._generator)

    def _mutate(self, parents: list[str]) -> str | None:
        chosen = parents[self._generator.integers(len(parents))]
        return self.space.mutate(chosen, self.mutation_probability, self._generator)
