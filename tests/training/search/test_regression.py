"""The regression finds what made the scores, and says how sure it is."""

import numpy as np
import pytest

from lvbert_tf.search.letter_model import LetterModel
from lvbert_tf.search.space import SearchSpace
from training.search import regression
from training.search.regression import (
    explain,
    features,
    fit,
    without_near_duplicates,
)


def truth(length: int = 8) -> LetterModel:
    draw = np.random.default_rng(5)
    return LetterModel(
        "csf",
        0.2,
        draw.normal(scale=0.02, size=(length, 3)),
        draw.normal(scale=0.01, size=(length - 1, 3, 3)),
    )


def scored(count: int, noise: float) -> dict[str, float]:
    draw = np.random.default_rng(6)
    space, model = SearchSpace("csf", 8), truth()
    candidates = {space.sample(draw) for _ in range(count)}
    return {
        c: model.predict(c) + float(draw.normal(scale=noise))
        for c in sorted(candidates)
    }


def test_features() -> None:
    x = features(["csf", "ffs"], "csf")
    assert x.shape == (2, 3 * 3 + 2 * 9)
    assert x.sum(axis=1).tolist() == [5.0, 5.0]
    assert x[0, [0, 3 + 1, 6 + 2, 9 + 1, 18 + 3 + 2]].tolist() == [1.0] * 5


def test_a_sum_is_found_again() -> None:
    accuracies = scored(400, noise=0.002)
    weights = dict.fromkeys(accuracies, 1.0)
    found = explain(accuracies, "csf", weights)
    assert found["r2"] > 0.95
    low, high = found["r2_interval"]
    assert low < found["r2"] < high <= 1.0
    assert found["candidates"] == len(accuracies)
    assert len(found["effects"]) == 8 * 3
    sure = [e for e in found["effects"] if e["interval"][0] > 0]
    assert sure
    assert all(e["interval"][0] <= e["gain"] <= e["interval"][1] for e in sure)
    model = fit(accuracies, "csf", weights)
    space = SearchSpace("csf", 8)
    best = max(truth().predict(c) for c in space.enumerate())
    assert truth().predict(model.best(space)) > best - 0.01
    assert found == explain(accuracies, "csf", weights)


def test_no_candidate_is_predicted_from_a_near_duplicate() -> None:
    draw = np.random.default_rng(2)
    for length, radius in ((5, 1), (8, 1), (24, 3)):
        space = SearchSpace("csf", length)
        candidates = sorted({space.sample(draw) for _ in range(60)})
        seen = []
        for train, test in without_near_duplicates(candidates, seed=0):
            seen += test.tolist()
            for i in test:
                for j in train:
                    pair = zip(candidates[i], candidates[j], strict=True)
                    assert sum(a != b for a, b in pair) > radius
        assert len(seen) == len(set(seen))
        assert seen
    # Everything is near everything
    assert not list(without_near_duplicates(["ccc", "ccs", "csc", "css"] * 6, 0))


def test_copies_are_not_taken_for_knowledge() -> None:
    """Copies of a few random strings: noise, but for their being copies."""
    draw = np.random.default_rng(1)
    space = SearchSpace("csf", 24)
    values: dict[str, float] = {}
    for _ in range(12):
        parent, level = space.sample(draw), float(draw.normal())
        values[parent] = level
        for place in range(12):
            letter = "csf"[("csf".index(parent[place]) + 1) % 3]
            child = parent[:place] + letter + parent[place + 1 :]
            values[child] = level + 0.01 * float(draw.normal())
    found = explain(values, "csf", dict.fromkeys(values, 1.0))
    assert 1 <= len(found["r2_folds"]) <= 10
    assert found["r2"] < 0.3  # with copies in other folds nearly 1


def test_a_crowded_space_is_explained_without_r2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regression, "LEAST_TRAINING", 20)
    draw = np.random.default_rng(1)
    crowded = {c: float(draw.normal()) for c in SearchSpace("csf", 3).enumerate()}
    found = explain(crowded, "csf", dict.fromkeys(crowded, 1.0))
    assert found["r2"] is None
    assert found["r2_interval"] is None
    assert "no near-duplicates" in found["r2_undefined"]
    assert len(found["effects"]) == 3 * 3


def test_noise_is_not_explained() -> None:
    draw = np.random.default_rng(0)
    accuracies = {c: float(draw.normal()) for c in scored(200, 0.0)}
    found = explain(accuracies, "csf", dict.fromkeys(accuracies, 1.0))
    assert found["r2"] < 0.1


def test_estimates_count_less() -> None:
    accuracies = scored(400, noise=0.0)
    wrong = {c: i for i, c in enumerate(accuracies) if i % 2}
    weights = {c: 1.0 if c in wrong else 1e6 for c in accuracies}
    disturbed = {c: a + (0.3 if c in wrong else 0.0) for c, a in accuracies.items()}
    model = fit(disturbed, "csf", weights)
    errors = [
        abs(model.predict(c) - a) for c, a in accuracies.items() if c not in wrong
    ]
    assert np.median(errors) < 0.02


def test_what_is_undefined_is_said() -> None:
    few = scored(10, 0.01)
    assert "fewer than 20" in explain(few, "csf", dict.fromkeys(few, 1.0))["undefined"]
    equal = dict.fromkeys(scored(100, 0.0), 0.25)
    found = explain(equal, "csf", dict.fromkeys(equal, 1.0))
    assert found["undefined"] == "all values are equal"
    assert "r2" not in found


def test_two_letters() -> None:
    draw = np.random.default_rng(0)
    space = SearchSpace("sf", 6)
    accuracies = {space.sample(draw): float(draw.normal()) for _ in range(60)}
    model = fit(accuracies, "sf", dict.fromkeys(accuracies, 1.0))
    assert model.best(space) in space
