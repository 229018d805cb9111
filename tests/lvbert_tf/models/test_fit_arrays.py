"""`fit`, `evaluate` and `predict` on what people hold their data in."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf
from lvbert_tf.models.rows import row_batches
from tests.lvbert_tf.models.tiny import LABELS, backbone, classifier, tokenizer

TEXTS = ["a good film", "the bad plot"] * 8
CLASSES = np.array([1, 0] * 8)


class _Batches(keras.callbacks.Callback):
    """Counts the batches of an epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.count += 1


def _order(shuffle: bool | str, seed: int, epochs: int = 2) -> list[list[int]]:
    keras.utils.set_random_seed(seed)
    data = row_batches({"y": np.arange(192)}, 192, 32, shuffle)
    return [
        np.concatenate([batch["y"] for batch in data]).tolist() for _ in range(epochs)
    ]


def test_rows_are_shuffled_before_they_are_batched() -> None:
    first, second = _order(True, seed=1)
    assert sorted(first) == sorted(second) == list(range(192))
    assert first != second
    # 96 of one class, then 96 of the other: no batch is of one class.
    classes = (np.array(first) >= 96).reshape(6, 32).mean(axis=1)
    assert ((classes > 0) & (classes < 1)).all()
    assert _order(True, seed=1) == [first, second]
    assert _order(True, seed=2)[0] != first
    assert _order(False, seed=1) == [list(range(192))] * 2
    blocks = np.array(_order("batch", seed=1)[0]).reshape(6, 32)
    assert (np.diff(blocks, axis=1) == 1).all()
    assert blocks[:, 0].tolist() != sorted(blocks[:, 0].tolist())
    with pytest.raises(ValueError, match="True, False or 'batch'"):
        row_batches(np.arange(3), 3, 2, "rows")


def _weights(model: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in model.trainable_variables]


def _fitted(x: Any, y: Any, **options: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Trains anew, with SGD so that weights tell of every row's gradient."""
    model = classifier()
    model.compile(keras.optimizers.SGD(0.5), metrics=["accuracy"], run_eagerly=True)
    history = model.fit(x, y, verbose=0, **options)
    return _weights(model), history.history


def _equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.allclose(a, b, atol=1e-6) for a, b in zip(one, other, strict=True))


def test_the_seed_reaches_the_order() -> None:
    texts = ["a", "good", "bad", "film", "plot", "the", "a plot", "a film"]
    y = [0, 1, 0, 1, 1, 0, 1, 0]
    one, other, third = (
        _fitted(texts, y, batch_size=2, shuffle=shuffle)[0]
        for shuffle in (True, True, False)
    )
    assert _equal(one, other)
    assert not _equal(one, third)


def test_names_are_classes_in_every_container() -> None:
    names = [LABELS[c] for c in CLASSES]
    expected, _ = _fitted(TEXTS, CLASSES, shuffle=False)
    column = [[text] for text in TEXTS]
    for x, y in (
        (TEXTS, names),
        (np.array(column, object), np.array(names)),
        (tf.constant(TEXTS), tf.constant(names)),
    ):
        assert _equal(_fitted(x, y, shuffle=False)[0], expected)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, names)).batch(32)
    assert _equal(_fitted(data, None)[0], expected)
    assert _equal(_fitted(_pydataset(names), None)[0], expected)
    found, _ = _fitted(iter_batches(names), None, steps_per_epoch=1)
    assert _equal(found, expected)


def iter_batches(names: list[str]) -> Any:
    yield TEXTS, names


def _pydataset(names: list[str]) -> keras.utils.PyDataset:
    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            return TEXTS, names

    return Batches()


def test_data_of_other_libraries() -> None:
    expected, _ = _fitted(TEXTS, CLASSES, shuffle=False)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": CLASSES})
    assert _equal(_fitted(frame["text"], frame["label"], shuffle=False)[0], expected)
    assert _equal(_fitted(frame[["text"]], frame["label"], shuffle=False)[0], expected)
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": CLASSES.tolist()})
    assert _equal(_fitted(data["text"], data["label"], shuffle=False)[0], expected)


def test_a_split_of_lists_validates_with_the_last_rows() -> None:
    expected, whole = _fitted(
        TEXTS[:12],
        CLASSES[:12],
        shuffle=False,
        validation_data=(TEXTS[12:], CLASSES[12:]),
    )
    found, split = _fitted(
        TEXTS, CLASSES.tolist(), shuffle=False, validation_split=0.25
    )
    assert _equal(found, expected)
    assert split["val_loss"] == pytest.approx(whole["val_loss"])
    with pytest.raises(ValueError, match="must leave rows"):
        _fitted(TEXTS[:1], [0], validation_split=0.5)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, CLASSES)).batch(4)
    with pytest.raises(ValueError, match="a dataset has no last rows"):
        _fitted(data, None, validation_split=0.5)


def test_weights_of_classes_and_rows() -> None:
    rows = np.where(CLASSES == 1, 3.0, 1.0)
    expected, _ = _fitted(TEXTS, CLASSES, shuffle=False, sample_weight=rows)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, CLASSES)).batch(32)
    for x, y, weights in (
        (TEXTS, CLASSES, {1: 3.0}),
        (TEXTS, CLASSES, {"positive": 3.0}),
        (data, None, {1: 3.0}),
    ):
        found, _ = _fitted(x, y, shuffle=False, class_weight=weights)
        assert _equal(found, expected)
    with pytest.raises(ValueError, match="Received: 2"):
        _fitted(TEXTS, CLASSES, class_weight={2: 1.0})
    with pytest.raises(ValueError, match="not both"):
        _fitted(TEXTS, CLASSES, class_weight={1: 3.0}, sample_weight=rows)


def test_one_batch_at_a_time() -> None:
    expected, _ = _fitted(TEXTS, CLASSES, shuffle=False)
    model = classifier()
    model.compile(keras.optimizers.SGD(0.5), metrics=["accuracy"], run_eagerly=True)
    names = [LABELS[c] for c in CLASSES]
    before = model.test_on_batch(TEXTS, names)[0]
    assert model.train_on_batch(TEXTS, names)[0] == pytest.approx(before)
    assert _equal(_weights(model), expected)
    assert model.predict_on_batch(TEXTS).shape == (16, 2)


@pytest.fixture(scope="module")
def model() -> lvbert_tf.LVBertTextClassifier:
    return classifier()


@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch"])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 2], "from 0 to 1. Received: 2 in row 1"),
        ([0, -1], "Received: -1 in row 1"),
        ([0, 1.5], "Received: 1.5 in row 1"),
        ([np.nan, 1], "Received: nan in row 0"),
        (["positive", "good"], "Received: 'good' in row 1"),
        (["positive", None], "Received: None in row 1"),
        ([0], "same number of rows. Received: {'x': 2, 'y': 1}"),
    ],
)
def test_what_is_no_class_is_named(
    model: Any, method: str, y: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(["a film", "the plot"], y)


def test_what_is_no_class_in_a_dataset_is_named(model: Any) -> None:
    for y, message in ((["good"], "Received:.*good"), ([7], "Received:.*7")):
        data = tf.data.Dataset.from_tensor_slices((["a film"], y)).batch(1)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            model.evaluate(data, verbose=0)
    unnamed = classifier(labels=None)
    with pytest.raises(ValueError, match="give it `labels"):
        unnamed.fit(["a film"], ["good"])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ("text", "Received: the string 'text'. Wrap it in a list"),
        (tf.constant("text"), "Wrap it in a list"),
        ([["a", "b"], ["c", "d"]], "a tuple of two batches"),
        ([["a"], ["c", "d"]], "a tuple of two batches"),
        (["a", None], r"Received: None \(NoneType\) in row 1"),
        (["a", float("nan")], r"nan \(float\) in row 1"),
        ([1.5], "must be strings"),
        ({"token_ids": [[1]]}, "set `preprocessor` to None"),
        (None, "`x` must be given"),
    ],
)
def test_predict_says_what_it_takes(model: Any, x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        model.predict(x, verbose=0)
    assert "in user code" not in str(caught.value)


def test_no_rows_give_no_rows(model: Any) -> None:
    assert model.predict([]).shape == (0, 2)
    assert model.classify([]) == []
    with pytest.raises(ValueError, match="must have rows"):
        model.fit([], [])


def test_classify_names_the_best(model: Any) -> None:
    logits = model.predict(TEXTS[:2], verbose=0)
    for row, answer in zip(logits, model.classify(TEXTS[:2]), strict=True):
        assert answer["label"] == LABELS[int(row.argmax())]
        shares = np.exp(row) / np.exp(row).sum()
        np.testing.assert_allclose(answer["scores"], shares, rtol=1e-5)


def test_a_regression_takes_finite_numbers() -> None:
    grades = classifier(num_classes=1, regression=True, labels=None)
    with pytest.raises(ValueError, match="Received: nan in row 1"):
        grades.fit(["a", "the"], [0.5, np.nan])
    (answer,) = grades.classify(["a film"])
    assert answer["scores"] == grades.predict(["a film"], verbose=0)[0].tolist()


def test_ids_are_checked_where_they_enter() -> None:
    ids = np.array([[2, 5, 3]])
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    bare = classifier(preprocessor=None)
    assert bare.predict(inputs, verbose=0).shape == (1, 2)
    for wrong in (-1, 11):
        with pytest.raises(ValueError, match=f"Received: {wrong} in row 0"):
            bare.predict({**inputs, "token_ids": np.array([[2, wrong, 3]])})
        for model in (bare, bare.backbone):
            for kind in (np.array, tf.constant):
                with pytest.raises(ValueError, match=f"Received: {wrong} in row 0"):
                    model({**inputs, "token_ids": kind([[2, wrong, 3]])})
    with pytest.raises(ValueError, match="`token_ids` must be integers"):
        bare.predict({**inputs, "token_ids": ids + 0.5})


def test_layers_called_directly_refuse_floats() -> None:
    ids = np.array([[2, 5, 3]])
    with pytest.raises(ValueError, match="`token_ids` must be integers"):
        backbone().embeddings(ids + 0.5, 0 * ids)
    head = lvbert_tf.MaskedLMHead(11, 8)
    with pytest.raises(ValueError, match="`mask_positions` must be integers"):
        head(np.zeros((1, 3, 16), "float32"), ids + 0.5, np.zeros((11, 8), "float32"))


def test_spans_say_which_answer_is_not_there() -> None:
    predictor = lvbert_tf.LVBertSpanPredictor(
        backbone(max_sequence_length=32),
        lvbert_tf.LVBertSpanPredictorPreprocessor(
            tokenizer(), sequence_length=32, stride=4, max_question_length=8
        ),
        beam_size=2,
        intermediate_dim=8,
    )
    predictor.compile(run_eagerly=True)
    x = {"question": ["a plot", "a film"], "context": ["the good film", "a bad plot"]}
    y = {"answer_start": [4, 2], "answer_text": ["good", "bad"]}
    assert np.isfinite(predictor.fit(x, y, verbose=0).history["loss"][0])
    with pytest.raises(ValueError, match="in row 1: answer_start=3"):
        predictor.fit(x, {**y, "answer_start": [4, 3]})
    with pytest.raises(ValueError, match="dict with `question` and `context`"):
        predictor.predict(["a"])
    assert np.isfinite(predictor.train_on_batch(x, y)[0])
