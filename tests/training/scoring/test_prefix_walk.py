"""The walk of the trie: the same results, each prefix once, few states alive."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from training.scoring.prefix_walk import PrefixWalk, StateMemory


class Letters:
    """A computation whose state is the letters so far."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def begin(self, batch: dict[str, Any]) -> Any:
        return ""

    def step(self, position: int, letter: str, hidden: Any, batch: Any) -> Any:
        assert len(hidden) == position
        self.steps.append(hidden + letter)
        return hidden + letter

    def finish(self, hidden: Any, batch: Any) -> Any:
        return (hidden, batch["name"])

    def state_bytes(self, hidden: Any) -> int:
        return 10


def prefixes(candidates: list[str]) -> set[str]:
    return {c[:depth] for c in candidates for depth in range(1, len(c) + 1)}


candidate_lists = st.integers(1, 7).flatmap(
    lambda length: st.lists(
        st.text("csf", min_size=length, max_size=length), min_size=1, max_size=30
    )
)


@given(candidate_lists)
def test_every_prefix_is_computed_once(candidates: list[str]) -> None:
    computation = Letters()
    walk = PrefixWalk(computation, StateMemory(0, 1))
    found = walk(0, {"name": "a"}, candidates)
    assert found == [(candidate, "a") for candidate in candidates]
    assert sorted(computation.steps) == sorted(prefixes(candidates))
    assert walk.layer_evaluations == len(computation.steps)
    assert walk.most_states == len(candidates[0]) + 1


@given(candidate_lists, candidate_lists, st.integers(0, 200))
def test_kept_states_move_no_result(
    first: list[str], second: list[str], limit: int
) -> None:
    second = [(c * 7)[: len(first[0])] for c in second]
    computation = Letters()
    memory = StateMemory(limit, 2)
    walk = PrefixWalk(computation, memory)
    for number in (0, 1):
        walk(number, {"name": "a"}, first, keep=first[:3])
        assert memory.size_bytes <= limit
    computation.steps.clear()
    for number in (0, 1):
        found = walk(number, {"name": "b"}, second, keep=second[:2])
        assert found == [(candidate, "b") for candidate in second]
        assert memory.size_bytes <= limit
    assert len(computation.steps) <= 2 * len(prefixes(second))


def test_what_is_kept_is_not_computed_again() -> None:
    computation = Letters()
    walk = PrefixWalk(computation, StateMemory(10**6, 1))
    walk(0, {"name": "a"}, ["ccsf", "sfsf"], keep=["ccsf"])
    computation.steps.clear()
    walk(0, {"name": "a"}, ["ccss", "cfff", "ssss"], keep=["ccsf"])
    assert sorted(computation.steps) == sorted(
        ["ccss", "cf", "cff", "cfff", "s", "ss", "sss", "ssss"]
    )
    # still there: it was not computed this time, and is wanted
    computation.steps.clear()
    walk(0, {"name": "a"}, ["ccsc"])
    assert computation.steps == ["ccsc"]
    # now nothing is wanted any more
    computation.steps.clear()
    walk(0, {"name": "a"}, ["ccsc"])
    assert computation.steps == ["c", "cc", "ccs", "ccsc"]


def test_room_goes_to_the_shallow_ones() -> None:
    memory = StateMemory(limit_bytes=100, num_batches=2)
    assert memory.wanted(["ccsf", "csff"], 10) == {"c", "cc", "cs", "ccs", "csf"}
    assert memory.wanted(["ccsf", "csff"], 25) == {"c", "cc"}
    assert memory.wanted(["ccsf"], 1000) == frozenset()


@given(candidate_lists, st.integers(2, 5))
def test_threads_share_the_candidates(candidates: list[str], threads: int) -> None:
    computation = Letters()
    walk = PrefixWalk(computation, StateMemory(10**6, 1), threads)
    found = walk(0, {"name": "a"}, candidates, keep=candidates[:2])
    assert found == [(candidate, "a") for candidate in candidates]
    assert set(computation.steps) == prefixes(candidates)
    # Each cut costs at most one path
    twice = len(computation.steps) - len(prefixes(candidates))
    assert twice <= (threads - 1) * len(candidates[0])
    assert walk.layer_evaluations == len(computation.steps)
