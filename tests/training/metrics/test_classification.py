"""Accuracy and constant predictions."""

import pytest

from training.metrics.classification import accuracy, is_degenerate, majority_share


def test_accuracy_of_known_arrays() -> None:
    assert accuracy(["a", "b", "b", "a"], ["a", "b", "a", "a"]) == 0.75
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        accuracy([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="at least one"):
        accuracy([], [])


def test_constant_predictions_are_degenerate() -> None:
    assert is_degenerate([1, 1, 1])
    assert not is_degenerate([1, 0, 1])
    assert majority_share(["x", "y", "x", "x"]) == 0.75
