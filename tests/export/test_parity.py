"""Comparisons with Keras: what they measure and when they fail."""

from typing import Any

import numpy as np
import pytest

from export.parity import (
    Case,
    Comparison,
    LabelMismatchError,
    NotFiniteError,
    ScoreMismatchError,
    ShapeMismatchError,
    check_labels,
    reference_texts,
    token_cases,
)
from export.task import Task, describe_task
from tests.export.models import MAX_SEQUENCE_LENGTH, VOCABULARY

SCORES = np.array([[0.25, 0.75], [0.5, 0.5]], "float32")
CASE = Case("case", {}, {"scores": SCORES})


def scores(values: Any) -> dict[str, Any]:
    return {"scores": values}


def test_the_worst_difference_and_the_tolerance_are_named() -> None:
    comparison = Comparison(1e-3)
    comparison.add(CASE, scores(SCORES + np.float32(5e-4)))
    comparison.verify()
    comparison.add(Case("worse", {}, CASE.outputs), scores(SCORES + np.float32(0.02)))
    comparison.add(Case("worst", {}, CASE.outputs), scores(SCORES - np.float32(0.03)))
    with pytest.raises(ScoreMismatchError, match=r"worst: .* 0\.03, tolerance 0\.001"):
        comparison.verify()
    assert comparison.max_abs_difference == pytest.approx(0.03, rel=1e-3)


def test_the_tolerance_grows_with_values_above_one() -> None:
    comparison = Comparison(1e-3)
    values = np.array([[400.0]], "float32")
    large = Case("values", {}, {"scores": values})
    comparison.add(large, scores(values + np.float32(0.3)))
    comparison.verify()
    comparison.add(large, scores(values + np.float32(0.5)))
    assert comparison.mismatch is not None


def test_scores_of_another_shape_or_type() -> None:
    with pytest.raises(ShapeMismatchError, match=r"\(2, 2\)"):
        Comparison(1.0).add(CASE, scores(SCORES[:1]))
    with pytest.raises(ShapeMismatchError, match="float64"):
        Comparison(1.0).add(CASE, scores(SCORES.astype("float64")))


def test_nan_is_no_small_difference() -> None:
    with pytest.raises(NotFiniteError, match="the artefact"):
        Comparison(1.0).add(CASE, scores(SCORES * np.float32("nan")))
    broken = Case("case", {}, scores(SCORES * np.float32("inf")))
    with pytest.raises(NotFiniteError, match="Keras"):
        Comparison(1.0).add(broken, broken.outputs)


def test_labels_are_those_of_the_highest_scores() -> None:
    task = Task(("a", "b"), False, True, False, 8, 8, 10, 2, 0, False)
    check_labels(CASE, SCORES, np.array([b"b", b"a"], dtype=object), task)
    with pytest.raises(LabelMismatchError, match="case"):
        check_labels(CASE, SCORES, np.array([b"a", b"a"], dtype=object), task)


def test_cases_have_padded_rows_both_segments_and_the_longest_input(
    classifier: object,
) -> None:
    cases = token_cases(classifier, describe_task(classifier, pairs=False))
    shapes = [case.inputs["input_ids"].shape for case in cases]
    assert shapes == [(1, 1), (1, 7), (3, 33), (5, MAX_SEQUENCE_LENGTH)]
    last = cases[-1].inputs
    assert last["padding_mask"][0].all()
    assert 0 < last["padding_mask"][-1].sum() < MAX_SEQUENCE_LENGTH
    assert set(last["segment_ids"][last["padding_mask"] == 1]) == {0, 1}
    assert not last["segment_ids"][last["padding_mask"] == 0].any()


def test_reference_texts_exceed_the_length() -> None:
    texts = reference_texts(VOCABULARY, 16)
    assert "" in texts
    assert max(len(text.split()) for text in texts) > 16
