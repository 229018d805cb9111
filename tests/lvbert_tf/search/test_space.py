"""The search space: membership, operators that stay in it, exact feasibility."""

import doctest
import itertools
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lvbert_tf import cost
from lvbert_tf.search import space as space_module
from lvbert_tf.search.space import FREE, Constraint, InfeasibleError, SearchSpace

SMALL = cost.Dimensions.of_size("small")
PARAMS = {letter: float(cost.layer_params(letter, SMALL)) for letter in "csf"}


def params_at_most(maximum: float) -> Constraint:
    return Constraint("params", PARAMS, maximum)


def count_at_most(letter: str, maximum: float) -> Constraint:
    costs = {other: float(other == letter) for other in "csf"}
    return Constraint(f"count_{letter}", costs, maximum)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    letters = "".join(draw(st.permutations("csf"))[: draw(st.integers(1, 3))])
    pattern = draw(st.text(alphabet=letters + FREE, min_size=1, max_size=9))
    free = SearchSpace(letters, len(pattern), pattern=pattern)
    constraints = []
    for index in range(draw(st.integers(0, 2))):
        costs = {letter: float(draw(st.integers(0, 5))) for letter in letters}
        least = free.least(Constraint("cost", costs, 0.0))
        slack = draw(st.integers(0, 20))
        constraints.append(Constraint(f"cost_{index}", costs, least + slack))
    try:
        return SearchSpace(
            letters, len(pattern), pattern=pattern, constraints=constraints
        )
    except InfeasibleError:  # each alone can be met, not both together
        assume(False)
        raise


def test_docstring_examples() -> None:
    results = doctest.testmod(space_module)
    assert results.attempted == 2
    assert results.failed == 0


def test_the_papers_space_s12() -> None:
    assert SearchSpace("csf", 24).size == 3**24 == 282_429_536_481
    assert SearchSpace("sf", 24).size == 2**24


@given(space=spaces(), seed=st.integers(0, 2**32))
def test_everything_proposed_is_of_the_space(space: SearchSpace, seed: int) -> None:
    generator = np.random.default_rng(seed)
    first, second = space.sample(generator), space.sample(generator)
    assert first in space
    child = space.crossover(first, second, generator)
    assert child is None or child in space
    if child is not None:
        pairs = zip(child, first, second, strict=True)
        assert all(letter in parents for letter, *parents in pairs)
    mutant = space.mutate(first, 0.7, generator)
    assert mutant is None or mutant in space
    for result in (first, second, child or first, mutant or first):
        for letter, symbol in zip(result, space.pattern, strict=True):
            assert symbol in (FREE, letter)


@settings(max_examples=40)
@given(space=spaces())
def test_size_is_the_number_of_members(space: SearchSpace) -> None:
    assume(len(space.letters) ** space.num_layers <= 3000)
    members = set(space.enumerate())
    every = map("".join, itertools.product(space.letters, repeat=space.num_layers))
    assert members == {candidate for candidate in every if candidate in space}
    assert space.size == len(members) == len(list(space.enumerate()))


def test_constrained_samples_are_even() -> None:
    space = SearchSpace("csf", 4, pattern="?s??", constraints=[count_at_most("c", 1)])
    members = list(space.enumerate())
    assert len(members) == 20
    generator = np.random.default_rng(0)
    counts = Counter(space.sample(generator) for _ in range(20_000))
    assert set(counts) == set(members)
    # chi-square, 19 degrees of freedom: 64 has probability 1e-6
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 64


def test_unconstrained_samples_are_even() -> None:
    space = SearchSpace("csf", 3)
    generator = np.random.default_rng(1)
    counts = Counter(space.sample(generator) for _ in range(27_000))
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 80
    assert len(counts) == 27


def test_a_tight_constraint_is_sampled_at_once() -> None:
    # 24 attention layers are the only ones: rejection would never find them
    least = 24 * PARAMS["s"]
    space = SearchSpace("csf", 24, constraints=[params_at_most(least)])
    assert space.size == 1
    assert space.sample(np.random.default_rng(0)) == "s" * 24
    # one of the 24 may be another
    wider = SearchSpace("csf", 24, constraints=[params_at_most(least + 12_000)])
    assert wider.size == 25


def test_mutation_changes_each_free_layer_with_the_probability() -> None:
    space = SearchSpace("csf", 24, pattern="c" + FREE * 23)
    generator = np.random.default_rng(3)
    original = space.sample(generator)
    changed = np.zeros(24)
    new_letters: Counter[str] = Counter()
    for _ in range(4000):
        mutant = space.mutate(original, 0.1, generator)
        assert mutant is not None
        differs = [a != b for a, b in zip(mutant, original, strict=True)]
        changed += differs
        new_letters.update(mutant[i] for i in range(24) if differs[i])
    assert changed[0] == 0
    # binomial, standard deviation 19: five of them
    assert np.all(np.abs(changed[1:] - 400) < 95)
    assert space.mutate(original, 0.0, generator) == original
    all_changed = space.mutate(original, 1.0, generator)
    assert all_changed is not None
    assert all(a != b for a, b in zip(all_changed[1:], original[1:], strict=True))
    assert set(new_letters) == {"c", "s", "f"}


def test_mutation_with_one_letter_returns_the_same() -> None:
    space = SearchSpace("s", 5)
    assert space.size == 1
    assert space.mutate("sssss", 1.0, np.random.default_rng(0)) == "sssss"


def test_crossover_takes_either_parent_evenly() -> None:
    space = SearchSpace("csf", 12)
    generator = np.random.default_rng(5)
    taken = sum(
        (space.crossover("c" * 12, "f" * 12, generator) or "").count("c")
        for _ in range(1000)
    )
    assert abs(taken - 6000) < 5 * np.sqrt(12_000 / 4)


def test_infeasible_names_the_least_reachable_s01() -> None:
    started = time.monotonic()
    with pytest.raises(
        InfeasibleError, match=r"params <= 1: the least reachable value is 6328320$"
    ):
        SearchSpace("csf", 24, constraints=[params_at_most(1)])
    # with fixed positions the least is larger
    with pytest.raises(InfeasibleError, match=str(22 * 263_680 + 2 * 526_080)):
        SearchSpace(
            "csf",
            24,
            pattern="ff" + FREE * 22,
            constraints=[params_at_most(6_328_320)],
        )
    assert time.monotonic() - started < 1


def test_jointly_infeasible_names_what_is_reachable_then() -> None:
    few_attention = count_at_most("s", 4)
    few_parameters = params_at_most(6_400_000)
    SearchSpace("csf", 24, constraints=[few_attention])
    SearchSpace("csf", 24, constraints=[few_parameters])
    with pytest.raises(InfeasibleError) as caught:
        SearchSpace("csf", 24, constraints=[few_attention, few_parameters])
    assert "params <= 6400000 together with count_s <= 4" in str(caught.value)
    assert str(4 * 263_680 + 20 * 275_236) in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"letters": ""}, "`letters` must hold"),
        ({"letters": "cc"}, "`letters` must hold"),
        ({"letters": "cx"}, "`letters` must hold"),
        ({"num_layers": 0}, "`num_layers` must be at least 1"),
        ({"pattern": "s?"}, "`pattern` must have 24 symbols"),
        ({"pattern": "?" * 5 + "f" + "?" * 18, "letters": "cs"}, "symbol 5 is 'f'"),
        (
            {"constraints": [Constraint("ms", {"c": 1.0, "s": 2.0}, 9.0)]},
            "'ms' has no cost for letter 'f'",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchSpace(**{"letters": "csf", "num_layers": 24, **arguments})


def test_membership() -> None:
    space = SearchSpace("cs", 3, pattern="?s?", constraints=[count_at_most("c", 1)])
    assert "css" in space
    for other in ("csc", "ccs", "cs", "csss", "fss", 3, None):
        assert other not in space


def test_big_draws_are_even() -> None:
    generator = np.random.default_rng(0)
    limit = 3**40 // 2  # more than 63 bits hold
    draws = [space_module._random_below(generator, limit) for _ in range(2000)]
    assert max(draws) < limit
    assert abs(sum(draw < limit // 3 for draw in draws) - 667) < 110
