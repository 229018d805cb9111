"""The front against its definition."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.scoring.score import Score
from training.search.letter_statistics import letter_statistics
from training.search.pareto import pareto_front, write_front


@given(
    st.dictionaries(
        st.text("csf", min_size=3, max_size=3), st.integers(0, 5), min_size=1
    )
)
def test_the_front(accuracies: dict[str, int]) -> None:
    def cost(candidate: str) -> float:
        return float(candidate.count("f") + 2 * candidate.count("s"))

    front = pareto_front(accuracies, cost)
    for point in front:
        assert accuracies[point.architecture] == point.fitness
        assert cost(point.architecture) == point.cost
    values = {(point.cost, point.fitness) for point in front}
    assert len(values) == len(front)
    for name, accuracy in accuracies.items():
        beaten = any(
            (a >= accuracy and cost(n) < cost(name))
            or (a > accuracy and cost(n) <= cost(name))
            for n, a in accuracies.items()
        )
        assert beaten != ((cost(name), accuracy) in values)
    assert front == sorted(front, key=lambda p: (p.cost, p.fitness))


def test_the_table(tmp_path: Path) -> None:
    file = tmp_path / "pareto.tsv"
    score = Score("ss", 0.5, 2.0, 0.01, 10, 0.6, 1.9)
    front = pareto_front({"cs": 0.25, "ss": 0.5}, len)
    write_front([(point, score) for point in front], "params", file)
    assert file.read_text() == (
        "params\tloss\taccuracy\tarchitecture\n2\t2.000000\t0.500000\tss\n"
    )


def test_letter_statistics() -> None:
    tops = {"evolution_0": ["ccsf", "ccfs"], "evolution_1": ["cfss", "sfcs"]}
    found = letter_statistics(tops, "csf", "????")
    assert found["candidates"] == 4
    assert found["searches"] == 2
    assert found["counts"]["c"] == [3, 2, 1, 0]
    assert found["bottom_two_layers"]["counts"] == {"c": 5, "s": 1, "f": 2}
    assert found["bottom_two_layers"]["of"] == 8
    assert found["bottom_two_layers"]["searches_led"] == {"c": 1, "s": 0, "f": 1}
    assert found["top_layer"]["counts"] == {"c": 0, "s": 3, "f": 1}
    # in the first search s and f are level there
    assert found["top_layer"]["searches_led"] == {"c": 0, "s": 1, "f": 0}
    assert found["fixed"] == {}
    third = pytest.approx(1 / 3)
    assert found["top_layer"]["expected_share"] == dict.fromkeys("csf", third)
    assert found["winners"] == {"evolution_0": "ccsf", "evolution_1": "cfss"}


def test_letter_statistics_know_what_was_fixed() -> None:
    found = letter_statistics({"evolution_0": ["cfss", "ccfs"]}, "csf", "c??s")
    assert found["fixed"] == {"1": "c", "4": "s"}
    assert found["top_layer"]["expected_share"] == {"c": 0.0, "s": 1.0, "f": 0.0}
    bottom = found["bottom_two_layers"]["expected_share"]
    assert bottom == {
        "c": pytest.approx(2 / 3),
        "s": pytest.approx(1 / 6),
        "f": pytest.approx(1 / 6),
    }
