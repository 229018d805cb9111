"""Scores many paths on a batch, computing what they have in common once.

Sorted, the candidates are the leaves of a trie. It is walked depth first, so that only
the states along one path are alive: at most one for each layer. Beside those, states
of the best candidates may be kept from one generation to the next, whose candidates
descend from them.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

Batch = dict[str, Any]


class PathComputation(Protocol):
    """What the walk needs; `training.scoring.path_functions.PathFunctions` is one."""

    def begin(self, batch: Batch) -> Any:
        """Returns the state below the first layer."""

    def step(self, position: int, letter: str, hidden: Any, batch: Batch) -> Any:
        """Returns the state above a layer."""

    def finish(self, hidden: Any, batch: Batch) -> Any:
        """Returns the result of a path from its last state."""

    def state_bytes(self, hidden: Any) -> int:
        """Returns how much memory a state takes."""


class StateMemory:
    """States by (number of the batch, letters that lead there), up to a limit.

    Args:
        limit_bytes: for all states together.
        num_batches: among which the limit is divided evenly.
    """

    def __init__(self, limit_bytes: int, num_batches: int) -> None:
        self._limit = limit_bytes
        self._num_batches = max(1, num_batches)
        self._states: dict[int, dict[str, Any]] = {}
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """What all states take now."""
        return self._bytes

    def state(self, batch: int, prefix: str) -> Any:
        """Returns the state, or None."""
        return self._states.get(batch, {}).get(prefix)

    def wanted(self, paths: Iterable[str], state_bytes: int) -> frozenset[str]:
        """Returns the prefixes of the paths for which there is room, shallow first.

        Shallow states serve more of the next candidates than deep ones.
        """
        room = self._limit // (self._num_batches * max(1, state_bytes))
        prefixes = {path[:depth] for path in paths for depth in range(1, len(path))}
        return frozenset(sorted(prefixes, key=lambda p: (len(p), p))[:room])

    def retain(self, batch: int, states: Mapping[str, Any], state_bytes: int) -> None:
        """Replaces what is kept of a batch."""
        self._bytes += (len(states) - len(self._states.get(batch, {}))) * state_bytes
        self._states[batch] = dict(states)


class PrefixWalk:
    """Walks the trie of the candidates.

    Args:
        computation: how to compute a path; with several threads it must bear calls
            from all of them.
        memory: of states between generations.
        threads: among which the candidates are divided. One thread leaves processors
            idle wherever an operation is too small for all of them.
    """

    def __init__(
        self, computation: PathComputation, memory: StateMemory, threads: int = 1
    ) -> None:
        self._computation = computation
        self._memory = memory
        self._threads = threads
        self.layer_evaluations = 0
        """Layers computed so far."""
        self.most_states = 0
        """Most states that were alive at once along a path, of one thread."""

    def __call__(
        self,
        index: int,
        batch: Batch,
        candidates: Sequence[str],
        keep: Iterable[str] = (),
    ) -> list[Any]:
        """Computes every candidate on one batch.

        Args:
            index: of the batch, under which states are kept.
            batch: the batch.
            candidates: of one length.
            keep: candidates whose states to keep for the next call with this batch.

        Returns:
            The result of each candidate, in their order.
        """
        root = self._computation.begin(batch)
        size = self._computation.state_bytes(root)
        wanted = self._memory.wanted(keep, size)

        def walk(part: Sequence[str]) -> _Branch:
            branch = _Branch(self._computation, self._memory, index, batch, wanted)
            branch.walk(root, part)
            return branch

        parts = _divided(sorted(set(candidates)), self._threads)
        if len(parts) == 1:
            branches = [walk(parts[0])]
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                branches = list(pool.map(walk, parts))
        results: dict[str, Any] = {}
        states: dict[str, Any] = {}
        for branch in branches:
            results |= branch.results
            states |= branch.states
            self.layer_evaluations += branch.layer_evaluations
            self.most_states = max(self.most_states, branch.most_states)
        for prefix in wanted - states.keys():
            state = self._memory.state(index, prefix)
            if state is not None:
                states[prefix] = state
        self._memory.retain(index, states, size)
        return [results[candidate] for candidate in candidates]


class _Branch:
    """The walk of one thread over neighbouring candidates."""

    def __init__(
        self,
        computation: PathComputation,
        memory: StateMemory,
        index: int,
        batch: Batch,
        wanted: frozenset[str],
    ) -> None:
        self._computation = computation
        self._memory = memory
        self._index = index
        self._batch = batch
        self._wanted = wanted
        self.results: dict[str, Any] = {}
        self.states: dict[str, Any] = {}
        self.layer_evaluations = 0
        self.most_states = 0

    def walk(self, root: Any, candidates: Sequence[str]) -> None:
        """Computes the sorted candidates from the state below the first layer."""
        # The state after so many layers of the path; None where a kept state further
        # up made it unnecessary.
        path: list[Any] = [root]
        before = ""
        for candidate in candidates:
            del path[_common(before, candidate) + 1 :]
            before = candidate
            self._jump(path, candidate)
            for position in range(len(path) - 1, len(candidate)):
                state = self._computation.step(
                    position, candidate[position], path[-1], self._batch
                )
                self.layer_evaluations += 1
                path.append(state)
                if candidate[: position + 1] in self._wanted:
                    self.states[candidate[: position + 1]] = state
            self.most_states = max(self.most_states, len(path))
            self.results[candidate] = self._computation.finish(path[-1], self._batch)

    def _jump(self, path: list[Any], candidate: str) -> None:
        """Goes back to a state of the path, or on to the deepest one that is known."""
        while path[-1] is None:
            path.pop()
        for depth in range(len(candidate) - 1, len(path) - 1, -1):
            prefix = candidate[:depth]
            state = self.states.get(prefix)
            if state is None:
                state = self._memory.state(self._index, prefix)
            if state is not None:
                path.extend([None] * (depth - len(path)))
                path.append(state)
                return


def _divided(candidates: Sequence[str], parts: int) -> list[Sequence[str]]:
    """Cuts sorted candidates into parts of about one size, where little is shared."""
    size = len(candidates) / parts
    if size < 2:
        return [candidates]
    cuts = [0]
    for part in range(1, parts):
        middle = round(part * size)
        around = range(
            max(cuts[-1] + 1, middle - int(size / 8)),
            min(len(candidates) - 1, middle + int(size / 8)) + 1,
        )
        cuts.append(
            min(
                around,
                key=lambda i: (
                    _common(candidates[i - 1], candidates[i]),
                    abs(i - middle),
                ),
            )
        )
    cuts.append(len(candidates))
    return [candidates[a:b] for a, b in itertools.pairwise(cuts)]


def _common(first: str, second: str) -> int:
    """Returns how many letters two paths have in common from the bottom."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
