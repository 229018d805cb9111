"""What an export must know about a classifier, and what it refuses."""

from typing import Any

import pytest

from common.command_line import UsageError
from export.manifest import encoder_flops
from export.task import describe_task
from lvbert_tf.cost import Dimensions, describe
from tests.export.models import LABELS, make_classifier


@pytest.fixture(scope="module")
def model() -> Any:
    return make_classifier()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b", "a"], "expected another name for class 2 than for class 0"),
        (["a", "", "b"], "expected a name for class 1. Received: ''"),
        (["a", " \t", "b"], "expected a name for class 1"),
        ([0, 1, 2], "expected a name for class 0. Received: 0"),
        (["a", "\ud800", "b"], "expected a name that UTF-8 can hold for class 1"),
    ],
)
def test_labels_that_name_no_class_or_two(
    model: Any, labels: list[Any], message: str
) -> None:
    model.labels = labels
    with pytest.raises(UsageError, match=message):
        describe_task(model, pairs=False)


def test_labels_are_the_models_or_their_indices(model: Any) -> None:
    model.labels = ["yes, really", "no", "🙂"]
    assert describe_task(model, pairs=False).labels == ("yes, really", "no", "🙂")
    model.labels = None
    assert describe_task(model, pairs=False).labels == ("0", "1", "2")
    model.labels = list(LABELS)


def test_a_regression_has_a_value_and_no_label() -> None:
    task = describe_task(make_classifier(regression=True), pairs=False)
    assert task.labels == ()
    assert task.num_classes == 1


def test_flops_are_those_of_describe() -> None:
    import lvbert_tf

    backbone = lvbert_tf.LVBertBackbone.from_size("small", "csf", vocabulary_size=100)
    dimensions = Dimensions.of_size("small", vocabulary_size=100)
    expected = describe("csf", dimensions)["model_flops"]
    assert encoder_flops(backbone, 128) == {
        "forward": expected,
        "sequence_length": 128,
    }
