"""Routes: the same on host and in graphs, uniform, and fair where asked."""

import doctest
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lvbert_tf.search import sampling
from lvbert_tf.search.sampling import route, route_tensor

METHODS = ("uniform", "fair")


def _routes(
    seed: int, steps: range, method: str, layers: int = 24, letters: int = 3
) -> NDArray[np.int32]:
    return np.stack([route(seed, step, layers, letters, method) for step in steps])


def test_docstring_example() -> None:
    assert doctest.testmod(sampling).attempted == 1
    assert doctest.testmod(sampling).failed == 0


@given(
    seed=st.integers(-(2**70), 2**70),
    step=st.integers(0, 2**62),
    layers=st.integers(1, 40),
    letters=st.integers(1, 7),
    method=st.sampled_from(METHODS),
)
def test_shape_type_range_and_repeatability(
    seed: int, step: int, layers: int, letters: int, method: str
) -> None:
    first = route(seed, step, layers, letters, method)
    assert first.shape == (layers,)
    assert first.dtype == np.int32
    assert first.min() >= 0
    assert first.max() < letters
    np.testing.assert_array_equal(first, route(seed, step, layers, letters, method))


def test_known_values_stay() -> None:
    # A change of these would change what a resumed run trains.
    assert "".join(map(str, route(0, 0, 24, 3))) == "020210200120001200100121"
    assert (
        "".join(map(str, route(0, 12345, 24, 3, "fair"))) == "200020201120021220212210"
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("layers", "letters"), [(24, 3), (5, 2), (7, 4)])
def test_tensor_equals_host(method: str, layers: int, letters: int) -> None:
    tf = pytest.importorskip("tensorflow")

    @tf.function(
        input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int64)]
    )
    def in_graph(seed: Any, step: Any) -> Any:
        return route_tensor(seed, step, layers, letters, method)

    steps = [*range(60), 2**31 - 1, 2**31, 2**53 + 1, 2**62]
    for seed in (0, -1, -(2**63)):
        for step in steps:
            tensor = in_graph(tf.constant(seed, tf.int64), tf.constant(step, tf.int64))
            assert tensor.dtype == tf.int32
            np.testing.assert_array_equal(
                tensor, route(seed, step, layers, letters, method)
            )
    np.testing.assert_array_equal(  # Python integers, eagerly
        route_tensor(17, 3, layers, letters, method),
        route(17, 3, layers, letters, method),
    )


def test_tensor_in_a_dataset() -> None:
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.range(50).map(lambda step: route_tensor(5, step, 9, 3))
    np.testing.assert_array_equal(
        np.stack(list(dataset.as_numpy_iterator())),
        _routes(5, range(50), "uniform", layers=9),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("letters", [2, 3, 5])
def test_letters_are_uniform_at_every_position(method: str, letters: int) -> None:
    steps = 3000 * letters
    routes = _routes(3, range(steps), method, letters=letters)
    for position in range(routes.shape[1]):
        counts = np.bincount(routes[:, position], minlength=letters)
        if method == "fair":
            assert set(counts) == {3000}
        else:  # chi-square, letters - 1 degrees of freedom; 1e-6 is below 31 for 4
            assert ((counts - 3000) ** 2 / 3000).sum() < 31


@pytest.mark.parametrize("method", METHODS)
def test_positions_steps_and_seeds_are_unrelated(method: str) -> None:
    # Pairs (letter here, letter there) over blocks: nine equal cells.
    routes = _routes(11, range(0, 18_000, 3), method)
    others = _routes(12, range(0, 18_000, 3), method)
    pairs = [
        (routes[:, 0], routes[:, 1]),
        (routes[:, 3], routes[:, 20]),
        (routes[:-1, 4], routes[1:, 4]),  # the next step, the next block where fair
        (routes[:, 8], others[:, 8]),
        (routes[:-1, 8], others[1:, 8]),
    ]
    for first, second in pairs:
        counts = np.bincount(first * 3 + second, minlength=9)
        expected = len(first) / 9
        # 8 degrees of freedom: a value of 43 has probability 1e-6
        assert ((counts - expected) ** 2 / expected).sum() < 43


def test_uniform_neighbouring_steps_are_unrelated() -> None:
    routes = _routes(1, range(6001), "uniform", layers=6)
    for position in range(6):
        counts = np.bincount(routes[:-1, position] * 3 + routes[1:, position])
        assert ((counts - 6000 / 9) ** 2 / (6000 / 9)).sum() < 43


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    block=st.integers(0, 2**40),
    layers=st.integers(1, 12),
    letters=st.integers(1, 6),
)
def test_fair_trains_each_layer_once_per_block(
    seed: int, block: int, layers: int, letters: int
) -> None:
    steps = range(block * letters, (block + 1) * letters)
    routes = _routes(seed, steps, "fair", layers, letters)
    np.testing.assert_array_equal(
        np.sort(routes, axis=0), np.arange(letters)[:, np.newaxis].repeat(layers, 1)
    )


def test_fair_draws_every_permutation_equally() -> None:
    routes = _routes(2, range(3 * 6000), "fair", layers=1)
    permutations = Counter(map(tuple, routes[:, 0].reshape(-1, 3)))
    assert len(permutations) == 6
    # 5 degrees of freedom: a value of 36 has probability 1e-6
    assert sum((count - 1000) ** 2 / 1000 for count in permutations.values()) < 36


@pytest.mark.parametrize("function", [route, route_tensor])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"step": -1}, "step"),
        ({"num_layers": 0}, "num_layers"),
        ({"num_letters": 0}, "num_letters"),
        ({"method": "sandwich"}, "method"),
    ],
)
def test_wrong_arguments_are_named(
    function: Callable[..., Any], arguments: dict[str, Any], name: str
) -> None:
    good = {"seed": 0, "step": 0, "num_layers": 2, "num_letters": 3}
    with pytest.raises(ValueError, match=f"`{name}` must be .* Received: {name}="):
        function(**{**good, **arguments})
