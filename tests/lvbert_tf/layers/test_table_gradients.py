"""Tokens that occur several times, under optimizers that are not linear."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf
from lvbert_tf.layers.embeddings import Embeddings
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import TINY_SIZES, VOCABULARY_SIZE, pretraining_batch
from tests.lvbert_tf.models.tiny import classifier

OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.1),
    "adamw": lambda: keras.optimizers.AdamW(0.1),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.1),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "nadam": lambda: keras.optimizers.Nadam(0.1),
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
}
IDS = np.array([[2, 7, 7, 7, 7, 3], [2, 5, 7, 6, 3, 0]], "int32")
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]], "int32")
TARGET = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")


def _layer() -> Any:
    keras.utils.set_random_seed(0)
    layer = Embeddings(9, 4, max_sequence_length=8, num_segments=3, dropout=0.0)
    layer.build()
    return layer


def _loss(output: Any, target: Any) -> Any:
    return tf.reduce_sum(tf.square(output - target))


def _reference_loss(layer: Any) -> Any:
    """Returns the loss through products with one-hot rows, which nothing repeats."""

    def rows(table: Any, ids: Any) -> Any:
        one_hot = tf.one_hot(ids, table.input_dim)
        return tf.tensordot(one_hot, table.embeddings.value, 1)

    total = (
        rows(layer.token_embedding, IDS)
        + rows(layer.position_embedding, tf.range(6))[None]
        + rows(layer.segment_embedding, SEGMENTS)
    )
    return _loss(layer.layer_norm(total), TARGET)


def _trained(optimizer: Any, reference: bool) -> list[np.ndarray]:
    layer = _layer()
    variables = layer.trainable_variables
    for _ in range(3):
        with tf.GradientTape() as tape:
            if reference:
                loss = _reference_loss(layer)
            else:
                loss = _loss(layer(IDS, SEGMENTS, training=True), TARGET)
        gradients = tape.gradient(loss, [v.value for v in variables])
        if not reference:
            assert all(isinstance(g, tf.Tensor) for g in gradients)
        optimizer.apply(gradients, variables)
    return [np.asarray(v) for v in variables]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_repeated_tokens_move_as_with_a_dense_gradient(name: str) -> None:
    found = _trained(OPTIMIZERS[name](), reference=False)
    expected = _trained(OPTIMIZERS[name](), reference=True)
    for a, b in zip(found, expected, strict=True):
        # Float32 sums in another order; Adam divides small numbers by small ones.
        np.testing.assert_allclose(a, b, atol=2e-5)


def _stages() -> dict[str, Any]:
    """Returns a function for each stage that takes one step with `AdamW`."""
    batch = pretraining_batch(rows=2)
    sizes = {**TINY_SIZES, "dropout": 0.0, "attention_dropout": 0.0}

    def built(model: Any) -> Any:
        model.compile(AdamW(1e-2), run_eagerly=True)
        model.optimizer.build(model.trainable_variables)
        return model

    def encoder() -> Any:
        return lvbert_tf.LVBertBackbone(VOCABULARY_SIZE, "f", **sizes)

    def supernet() -> Any:
        model = lvbert_tf.LVBertSupernet(VOCABULARY_SIZE, num_layers=1, **sizes)
        return built(model).train_step(pretraining_batch(rows=2, route=[0]))

    return {
        "mlm": lambda: built(lvbert_tf.LVBertMaskedLM(encoder())).train_step(batch),
        "electra": lambda: built(lvbert_tf.LVBertElectra(encoder(), 0.5)).train_step(
            batch
        ),
        "fit": lambda: built(classifier()).fit(["a a film"], [1], verbose=0),
        "supernet": supernet,
    }


@pytest.mark.parametrize(
    "stage",
    ["mlm", "electra", "fit", pytest.param("supernet", marks=pytest.mark.slow)],
)
def test_every_stage_merges_in_one_place(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    merge = AdamW.sum_and_clip

    def spy(self: AdamW, gradients: Any) -> Any:
        calls.append([type(gradient) for gradient in gradients])
        return merge(self, gradients)

    monkeypatch.setattr(AdamW, "sum_and_clip", spy)
    _stages()[stage]()
    assert len(calls) == 1
    # Dense before any optimizer sees them, Keras' own included.
    assert not any(issubclass(kind, tf.IndexedSlices) for kind in calls[0])
