"""Rows, targets and weights that no one should give, and what they are told."""

from typing import Any

import numpy as np
import pytest

import lvbert_tf
from tests.lvbert_tf.models.tiny import backbone, classifier, tokenizer

TEXTS = ["a good film", "the bad plot"]
IDS = {
    "token_ids": np.array([[2, 5, 3], [2, 6, 3]]),
    "segment_ids": np.zeros((2, 3), "int32"),
    "padding_mask": np.ones((2, 3), "int32"),
}


@pytest.fixture(scope="module")
def model() -> Any:
    return classifier()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": ({"a", "b"})}, "rows in an order.*set"),
        ({"x": 5}, "rows in an order.*5 .int."),
        ({"x": (["a"], ["b"], ["c"])}, "a tuple of 3"),
        ({"x": (TEXTS, ["a"])}, r"same number of rows. Received: \{'x': \[2, 1\]"),
        ({"y": None}, "`y` must be given.*y=None"),
        ({"y": [[1, 0], [0, 1]]}, r"one class a row.*shape \(2, 2\)"),
        ({"batch_size": "2"}, "batch_size='2'"),
        ({"batch_size": 2.0}, "batch_size=2.0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"validation_split": "x"}, "validation_split='x' of 2 rows"),
        ({"validation_split": 1.0}, "validation_split=1.0 of 2 rows"),
        ({"sample_weight": [1.0, np.nan]}, "finite numbers. Received: nan in row 1"),
        ({"sample_weight": ["x", "y"]}, "finite numbers. Received: 'x' in row 0"),
        ({"sample_weight": [1.0]}, "'x': 2, 'y': 2, 'sample_weight': 1"),
        ({"class_weight": [1.0, 2.0]}, "must be a dict.*1.0, 2.0"),
        ({"class_weight": "balanced"}, "must be a dict.*'balanced'"),
        ({"class_weight": {7: 1.0}}, "must have classes as keys.*Received: 7"),
    ],
)
def test_fit_says_what_it_takes(model: Any, options: dict, message: str) -> None:
    arguments = {"x": TEXTS, "y": [1, 0], "verbose": 0, **options}
    with pytest.raises(ValueError, match=message):
        model.fit(**arguments)


def test_columns_of_weights_are_weights(model: Any) -> None:
    column = model.evaluate(TEXTS, [1, 0], sample_weight=[[3.0], [1.0]], verbose=0)
    flat = model.evaluate(TEXTS, [1, 0], sample_weight=[3.0, 1.0], verbose=0)
    even = model.evaluate(TEXTS, [1, 0], verbose=0)
    np.testing.assert_allclose(column, flat, rtol=1e-6)
    assert column[0] != pytest.approx(even[0], rel=1e-3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("token_ids", 11, "`token_ids` must be from 0 to 10. Received: 11 in row 1"),
        ("token_ids", -1, "Received: -1 in row 1"),
        ("segment_ids", 2, "`segment_ids` must be from 0 to 1. Received: 2 in row 1"),
        ("padding_mask", 7, "`padding_mask` must be from 0 to 1. Received: 7 in row 1"),
    ],
)
def test_ids_beyond_the_tables(name: str, value: int, message: str) -> None:
    wrong = IDS[name].copy()
    wrong[1, 2] = value
    with pytest.raises(ValueError, match=message):
        classifier(preprocessor=None).predict({**IDS, name: wrong}, verbose=0)


def test_shapes_of_ids() -> None:
    model = classifier(preprocessor=None)
    with pytest.raises(ValueError, match=r"one shape \(B, T\).*\(2, 2\)"):
        model.predict({**IDS, "segment_ids": np.zeros((2, 2), int)}, verbose=0)
    long = {name: np.ones((1, 17), "int32") for name in IDS}
    with pytest.raises(ValueError, match="at most 16 tokens.*Received: 17"):
        model.predict(long, verbose=0)
    masked_lm = lvbert_tf.LVBertMaskedLM(backbone())
    with pytest.raises(ValueError, match="`mask_positions` must be from 0 to 2"):
        masked_lm.predict({**IDS, "mask_positions": np.array([[3], [0]])}, verbose=0)


def test_a_masked_lm_makes_its_targets() -> None:
    masked_lm = lvbert_tf.LVBertMaskedLM(
        backbone(), lvbert_tf.LVBertMaskedLMPreprocessor(tokenizer(), sequence_length=8)
    )
    with pytest.raises(ValueError, match="Give `x` only. Received: y"):
        masked_lm.fit(TEXTS, [1, 0], verbose=0)
    with pytest.raises(ValueError, match="Received: sample_weight"):
        masked_lm.evaluate(TEXTS, sample_weight=[1.0, 2.0], verbose=0)


@pytest.mark.parametrize("labels", ["ab", {"a", "b"}, [0, 1], {"a": 0, "b": 1}])
def test_labels_are_names_in_order(labels: Any) -> None:
    with pytest.raises(ValueError, match="`labels` must be a list of names"):
        lvbert_tf.LVBertTextClassifier(backbone(), 2, labels=labels)


def test_labels_of_numpy_are_names() -> None:
    names = np.array(["no", "yes"])
    model = lvbert_tf.LVBertTextClassifier(backbone(), 2, labels=names)
    assert model.get_config()["labels"] == ["no", "yes"]


def test_ids_are_turned_back_into_text_only_if_they_are_ids() -> None:
    words = tokenizer()
    assert words.detokenize([2, 5]) == "[CLS] a"
    for wrong in ([2.5], "ab", 5):
        with pytest.raises(ValueError, match="must be ids, or pieces"):
            words.detokenize(wrong)
    with pytest.raises(ValueError, match="lowercase='no'"):
        lvbert_tf.LVBertTokenizer(None, lowercase="no")
    with pytest.raises(ValueError, match="expected a string. Received: 1"):
        lvbert_tf.LVBertTokenizer([1, 2])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([5], r"`texts` must be strings. Received: 5 \(int\) in row 0"),
        (None, "`texts` must be rows in an order.*None"),
        ([["a [MASK]", "b"]], "`texts` must be strings of shape"),
        ("a [MASK]", "Wrap it in a list"),
    ],
)
def test_fill_and_answer_take_texts(texts: Any, message: str) -> None:
    masked_lm = lvbert_tf.LVBertMaskedLM(
        backbone(), lvbert_tf.LVBertMaskedLMPreprocessor(tokenizer(), sequence_length=8)
    )
    with pytest.raises(ValueError, match=message):
        masked_lm.fill(texts)
    windows = lvbert_tf.LVBertSpanPredictorPreprocessor(
        tokenizer(), sequence_length=16, stride=4, max_question_length=4
    )
    spans = lvbert_tf.LVBertSpanPredictor(backbone(), windows, 2, 8)
    with pytest.raises(ValueError, match=message.replace("texts", "questions")):
        spans.answer(texts, ["a film"])
    for name in ("n_best", "max_answer_length", "batch_size"):
        with pytest.raises(ValueError, match=f"Received: {name}=0"):
            spans.answer(["a"], ["a film"], **{name: 0})
    with pytest.raises(ValueError, match="top_k='3'"):
        masked_lm.fill(["a [MASK]"], top_k="3")
