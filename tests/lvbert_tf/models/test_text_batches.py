"""Strings reach a model row by row, or not at all."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf

WORDS = ["a", "good", "bad", "film", "plot", "the"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TOKENIZER = lvbert_tf.LVBertTokenizer(VOCABULARY)
CLASSIFIER = lvbert_tf.LVBertTextClassifierPreprocessor(TOKENIZER, sequence_length=8)
MASKED_LM = lvbert_tf.LVBertMaskedLMPreprocessor(TOKENIZER, sequence_length=8)
SPANS = lvbert_tf.LVBertSpanPredictorPreprocessor(
    TOKENIZER, sequence_length=16, stride=4, max_question_length=4
)
ROWS = [["a good film"], ["the bad plot"]]
IDS = [[2, 5, 6, 8, 3, 0, 0, 0], [2, 10, 7, 9, 3, 0, 0, 0]]


@pytest.mark.parametrize(
    "texts",
    [
        ["a good film", "the bad plot"],
        tf.constant(["a good film", "the bad plot"]),
        ROWS,
        tf.constant(ROWS),
        np.array(ROWS),
        np.array(ROWS, object),
    ],
)
def test_a_column_is_a_batch(texts: Any) -> None:
    assert np.array_equal(CLASSIFIER(texts)["token_ids"], IDS)


def test_shapes_that_are_known_late_are_checked_late() -> None:
    batch = tf.function(
        lambda x: CLASSIFIER(x)["token_ids"],
        input_signature=[tf.TensorSpec((None, None), tf.string)],
    )
    assert np.array_equal(batch(tf.constant(ROWS)), IDS)
    with pytest.raises(tf.errors.InvalidArgumentError):
        batch(tf.constant([["a", "b"], ["c", "d"]]))


def test_pairs_may_be_columns() -> None:
    flat = CLASSIFIER((tf.constant(["a film"]), tf.constant(["the plot"])), None)
    column = CLASSIFIER((tf.constant([["a film"]]), tf.constant([["the plot"]])), None)
    for name, value in flat.items():
        assert np.array_equal(value, column[name])


@pytest.mark.parametrize("preprocessor", [CLASSIFIER, MASKED_LM])
@pytest.mark.parametrize(
    "texts",
    [
        [["a", "good"], ["the", "plot"]],
        np.array([["a", "good"], ["the", "plot"]]),
        tf.constant([[["a"]]]),
        tf.ragged.constant([["a"], ["the", "plot"]]),
    ],
)
def test_rows_of_two_are_refused(preprocessor: Any, texts: Any) -> None:
    with pytest.raises(ValueError, match="a tuple of two batches"):
        preprocessor(texts)


@pytest.mark.parametrize("preprocessor", [CLASSIFIER, MASKED_LM])
def test_numbers_are_refused(preprocessor: Any) -> None:
    with pytest.raises(ValueError, match="must be strings"):
        preprocessor(np.array([1.5, 2.0]))


def test_unequal_segments_are_refused() -> None:
    with pytest.raises(ValueError, match="must have one shape"):
        CLASSIFIER((tf.constant(["a", "b"]), tf.constant(["c"])), None)


def test_questions_may_be_columns() -> None:
    flat = SPANS({"question": ["a plot"], "context": ["the film"]})
    column = SPANS({"question": [["a plot"]], "context": [["the film"]]})
    for name, value in flat.items():
        assert np.array_equal(value, column[name])
    with pytest.raises(ValueError, match="`context` must be strings of shape"):
        SPANS({"question": ["a"], "context": [["the", "film"]]})
    with pytest.raises(ValueError, match="must have one shape"):
        SPANS({"question": ["a", "b"], "context": ["the film"]})


def test_a_string_is_no_list_of_texts() -> None:
    with pytest.raises(ValueError, match="Wrap it in a list"):
        MASKED_LM.blanks("a [MASK] film")
