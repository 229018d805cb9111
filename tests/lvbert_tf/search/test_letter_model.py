"""The best string of a sum by letters and pairs, against listing them all."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.search.letter_model import LetterModel
from lvbert_tf.search.space import Constraint, SearchSpace


def model(seed: int, letters: str = "csf", length: int = 5) -> LetterModel:
    draw = np.random.default_rng(seed)
    n = len(letters)
    return LetterModel(
        letters,
        0.5,
        draw.normal(size=(length, n)),
        draw.normal(size=(length - 1, n, n)),
    )


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["?????", "c???s", "??f??"]),
    st.integers(5, 14),
)
def test_best_is_the_best_of_all(seed: int, pattern: str, maximum: int) -> None:
    one = model(seed)
    cost = Constraint("cost", {"c": 1.0, "s": 2.0, "f": 3.0}, float(maximum))
    for constraints in ((), (cost,)):
        try:
            space = SearchSpace("csf", 5, pattern=pattern, constraints=constraints)
        except ValueError:
            continue
        best = one.best(space)
        assert best in space
        listed = max(space.enumerate(), key=one.predict)
        assert one.predict(best) == pytest.approx(one.predict(listed))


def test_predict_adds_up() -> None:
    one = model(3)
    expected = 0.5 + sum(one.positions[range(5), [0, 1, 2, 2, 0]])
    for i, (a, b) in enumerate(itertools.pairwise([0, 1, 2, 2, 0])):
        expected += one.pairs[i, a, b]
    assert one.predict("csffc") == pytest.approx(expected)


def test_other_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match="5 layers of 'csf'"):
        model(0).best(SearchSpace("cs", 5))
    with pytest.raises(ValueError, match="space of 6 layers"):
        model(0).best(SearchSpace("csf", 6))


def test_a_space_as_large_as_the_papers() -> None:
    one = model(1, length=24)
    limited = SearchSpace(
        "csf",
        24,
        constraints=[Constraint("count_f", {"c": 0.0, "s": 0.0, "f": 1.0}, 4.0)],
    )
    free = one.best(SearchSpace("csf", 24))
    best = one.best(limited)
    assert best.count("f") <= 4
    assert one.predict(best) <= one.predict(free)
    draw = np.random.default_rng(0)
    assert all(one.predict(limited.sample(draw)) < one.predict(best) for _ in range(50))
