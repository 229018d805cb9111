"""Algorithm 1: its bookkeeping, its limits, and going on from a saved state."""

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.search import evolution
from lvbert_tf.search import space as space_module
from lvbert_tf.search.evolution import (
    EvolutionSearch,
    IterationSummary,
    RandomSearch,
    Search,
)
from lvbert_tf.search.space import Constraint, SearchSpace

TARGET = "ccsffscffsccsfcfscfcssfs"


def likeness(candidate: str) -> float:
    """A fitness with one best architecture."""
    return sum(a == b for a, b in zip(candidate, TARGET, strict=False)) / len(candidate)


def noise(candidate: str) -> float:
    """A fitness without any structure: the best stay unlike each other."""
    return float(zlib.crc32(candidate.encode()))


def run(
    search: Search, fitness: Callable[[str], float] = likeness
) -> tuple[list[list[str]], list[Any]]:
    generations, summaries = [], []
    while generation := search.ask():
        generations.append(generation)
        summaries.append(search.tell({c: fitness(c) for c in generation}))
    return generations, summaries


def test_the_papers_settings() -> None:
    search = EvolutionSearch(SearchSpace("csf", 24), seed=0)
    generations, summaries = run(search, noise)
    assert [len(generation) for generation in generations] == [50] * 20
    proposed = [c for generation in generations for c in generation]
    assert len(set(proposed)) == 1000 == search.evaluations
    assert summaries[0].origins == {"random": 50}
    assert all(s.origins == {"crossover": 25, "mutation": 25} for s in summaries[1:])
    assert len(search.top) == 10
    assert search.finished == "iterations"
    assert search.ask() == []


def test_top_k_against_a_plain_reference() -> None:
    search = EvolutionSearch(SearchSpace("csf", 24), seed=3, iterations=6)
    scored: list[tuple[float, str]] = []
    while generation := search.ask():
        # Ties on purpose: the fitness has few values
        fitness = {c: float(c.count("c") // 4) for c in generation}
        before = search.top[0].fitness if search.top else -1.0
        summary = search.tell(fitness)
        for candidate in generation:
            scored.append((-fitness[candidate], candidate))
        best = sorted(scored)[:10]
        assert [c.architecture for c in search.top] == [entry[1] for entry in best]
        assert [c.fitness for c in search.top] == [-entry[0] for entry in best]
        assert summary.best == -best[0][0]
        assert summary.best_architecture == best[0][1]
        assert summary.top_mean == pytest.approx(-np.mean([b[0] for b in best]))
        assert summary.mean == pytest.approx(np.mean(list(fitness.values())))
        assert summary.evaluations == len(scored)
        assert summary.improved == (summary.best > before)


def test_children_and_mutants_come_from_the_top() -> None:
    search = EvolutionSearch(
        SearchSpace("csf", 24), seed=1, iterations=5, top_k=3, mutation_probability=0.1
    )
    search.tell({c: noise(c) for c in search.ask()})
    while generation := search.ask():
        parents = [candidate.architecture for candidate in search.top]
        assert len(parents) == 3
        origins = search.state_dict()["pending"]
        for candidate in generation:
            if origins[candidate] == "crossover":
                assert any(
                    all(x in pair for x, *pair in zip(candidate, a, b, strict=True))
                    for a in parents
                    for b in parents
                    if a != b
                )
            else:
                assert origins[candidate] == "mutation"
                distances = [
                    sum(x != y for x, y in zip(candidate, parent, strict=True))
                    for parent in parents
                ]
                # 24 layers at 0.1: more than 12 changes has probability 1e-7
                assert 1 <= min(distances) <= 12
        search.tell({c: noise(c) for c in generation})


def test_random_candidates_make_up_what_alike_parents_cannot_give() -> None:
    search = EvolutionSearch(SearchSpace("csf", 24), seed=0, iterations=12)
    generations, summaries = run(search, likeness)
    assert [len(generation) for generation in generations] == [50] * 12
    assert any("random" in summary.origins for summary in summaries[1:])
    assert any(summary.repeated > 1000 for summary in summaries)


def test_evolution_finds_more_than_random_search() -> None:
    evolved = EvolutionSearch(SearchSpace("csf", 24), seed=0)
    drawn = RandomSearch(SearchSpace("csf", 24), seed=0)
    run(evolved)
    _, summaries = run(drawn)
    assert drawn.evaluations == evolved.evaluations == 1000
    assert all(summary.origins == {"random": 50} for summary in summaries)
    assert evolved.top[-1].fitness > drawn.top[0].fitness


@pytest.mark.parametrize("kind", [EvolutionSearch, RandomSearch])
def test_seeds_s04(kind: type[Search]) -> None:
    space = SearchSpace("csf", 24)
    first = run(kind(space, seed=5, iterations=4))
    assert run(kind(space, seed=5, iterations=4)) == first
    assert run(kind(space, seed=6, iterations=4))[0] != first[0]


@pytest.mark.parametrize("kind", [EvolutionSearch, RandomSearch])
@pytest.mark.parametrize("when", ["asked", "told"])
def test_resume_equals_uninterrupted(kind: type[Search], when: str) -> None:
    space = SearchSpace("csf", 12)
    expected = run(kind(space, seed=2, iterations=6))
    for stop in range(6):
        generations: list[list[str]] = []
        summaries: list[IterationSummary] = []
        search = kind(space, seed=2, iterations=6)
        while generation := search.ask():
            if len(generations) == stop and when == "asked":
                break
            generations.append(generation)
            summaries.append(search.tell({c: likeness(c) for c in generation}))
            if len(generations) == stop:
                break
        state = json.loads(json.dumps(search.state_dict()))
        resumed = kind(space, seed=2, iterations=6)
        resumed.load_state_dict(state)
        more = run(resumed)
        assert (generations + more[0], summaries + more[1]) == expected


def test_a_finished_search_can_go_on() -> None:
    space = SearchSpace("csf", 12)
    short = EvolutionSearch(space, seed=2, iterations=3)
    first, _ = run(short)
    longer = EvolutionSearch(space, seed=2, iterations=6)
    longer.load_state_dict(short.state_dict())
    assert (
        first + run(longer)[0] == run(EvolutionSearch(space, seed=2, iterations=6))[0]
    )


def test_a_state_of_other_settings_is_refused() -> None:
    space = SearchSpace("csf", 12)
    state = EvolutionSearch(space, seed=2).state_dict()
    with pytest.raises(ValueError, match="seed: 2 there, 3 here"):
        EvolutionSearch(space, seed=3).load_state_dict(state)
    with pytest.raises(ValueError, match="method: 'evolution' there, 'random' here"):
        RandomSearch(space, seed=2).load_state_dict(state)
    other = SearchSpace("sf", 12)
    with pytest.raises(ValueError, match="space"):
        EvolutionSearch(other, seed=2).load_state_dict(state)


@pytest.mark.parametrize("kind", [EvolutionSearch, RandomSearch])
@pytest.mark.parametrize(("letters", "layers"), [("csf", 3), ("sf", 5), ("s", 4)])
def test_a_small_space_is_exhausted(
    kind: type[Search], letters: str, layers: int
) -> None:
    space = SearchSpace(letters, layers)
    search = kind(space, seed=0, population=20)
    generations, _ = run(search)
    proposed = [c for generation in generations for c in generation]
    assert sorted(proposed) == sorted(space.enumerate())
    assert search.finished == "exhausted"
    assert search.evaluations == space.size


def test_exhausted_within_constraints() -> None:
    costs = {"c": 0.0, "s": 1.0, "f": 1.0}
    space = SearchSpace("csf", 24, constraints=[Constraint("not_c", costs, 1.0)])
    search = EvolutionSearch(space, seed=0)
    generations, summaries = run(search)
    assert sum(map(len, generations)) == space.size == 1 + 24 * 2
    assert search.finished == "exhausted"
    assert len(generations) == 1
    assert summaries[0].new == 49


def test_constraints_hold_in_every_generation() -> None:
    costs = {"c": 2.0, "s": 1.0, "f": 4.0}
    space = SearchSpace(
        "csf",
        24,
        pattern="cc" + "?" * 21 + "s",
        constraints=[Constraint("cost", costs, 50.0)],
    )
    search = EvolutionSearch(space, seed=0, iterations=8)
    generations, summaries = run(search, lambda c: c.count("f"))
    assert all(c in space for generation in generations for c in generation)
    assert [len(generation) for generation in generations] == [50] * 8
    assert sum(summary.rejected for summary in summaries) > 0


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    letters=st.sampled_from(["csf", "sf", "c"]),
    layers=st.integers(1, 7),
    population=st.integers(1, 12),
    crossover=st.integers(0, 6),
    mutation=st.integers(1, 6),
    top_k=st.integers(1, 5),
)
def test_never_twice_and_always_ends(
    seed: int,
    letters: str,
    layers: int,
    population: int,
    crossover: int,
    mutation: int,
    top_k: int,
) -> None:
    space = SearchSpace(letters, layers)
    search = EvolutionSearch(
        space,
        seed=seed,
        population=population,
        crossover=crossover,
        mutation=mutation,
        top_k=top_k,
        iterations=12,
    )
    generations, _ = run(search)
    proposed = [c for generation in generations for c in generation]
    assert len(proposed) == len(set(proposed)) == search.evaluations
    assert all(c in space for c in proposed)
    assert search.finished in ("iterations", "exhausted")
    full = min(space.size, population + 11 * (crossover + mutation))
    assert len(proposed) == full


def test_patience_ends_early_s02() -> None:
    search = EvolutionSearch(SearchSpace("csf", 24), seed=0, patience=3)
    generations, summaries = run(search, lambda c: 1.0)
    assert len(generations) == 4
    assert search.finished == "patience"
    assert [summary.improved for summary in summaries] == [True, False, False, False]


def test_initial_candidates_lead_the_first_generation() -> None:
    space = SearchSpace("csf", 24)
    search = EvolutionSearch(space, seed=0, initial=[TARGET, "s" * 24, TARGET])
    assert search.ask()[:2] == [TARGET, "s" * 24]
    assert len(search.ask()) == 50
    search.tell({c: likeness(c) for c in search.ask()})
    assert search.top[0].architecture == TARGET
    assert search.top[0].origin == "initial"


def test_ask_is_stable_and_tell_is_strict() -> None:
    search = EvolutionSearch(SearchSpace("csf", 24), seed=0)
    with pytest.raises(ValueError, match="the 0 candidates .*Received: 1"):
        search.tell({TARGET: 1.0})
    generation = search.ask()
    assert search.ask() == generation
    with pytest.raises(ValueError, match="Received: 49"):
        search.tell({c: 0.0 for c in generation[1:]})
    with pytest.raises(ValueError, match="must be a number"):
        search.tell({c: float("nan") for c in generation})
    assert search.iteration == 0
    search.tell({c: 0.0 for c in generation})
    assert search.iteration == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"population": 0}, "population"),
        ({"iterations": 0}, "iterations"),
        ({"top_k": 0}, "top_k"),
        ({"patience": 0}, "patience"),
        ({"seed": -1}, "seed"),
        ({"crossover": 0, "mutation": 0}, "crossover"),
        ({"mutation": -1}, "mutation"),
        ({"mutation_probability": 1.1}, "mutation_probability"),
        ({"initial": ["s" * 23]}, "initial"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}`.* must"):
        EvolutionSearch(SearchSpace("csf", 24), **arguments)


def test_no_tensorflow_here() -> None:
    for module in (evolution, space_module):
        source = Path(str(module.__file__)).read_text()
        assert not re.search(r"^\s*(import|from) (tensorflow|keras)", source, re.M)


def test_suggestions_come_on_top_where_they_are_new() -> None:
    search = EvolutionSearch(
        SearchSpace("csf", 24, pattern="c" + 23 * "?"), seed=0, iterations=3
    )
    first = search.ask(["s" * 24, "cs"])  # none of the space
    assert len(first) == 50
    search.tell({c: likeness(c) for c in first})
    new, seen, outside = "c" + "s" * 23, first[0], "s" * 24
    second = search.ask([new, seen, outside, new])
    assert len(second) == 51
    assert search.pending[new] == "suggestion"
    assert search.ask(["c" + "f" * 23]) == second  # already asked
    search.tell({c: likeness(c) for c in second})
    assert len(search.ask([new])) == 50
