"""What a traced step read: changing it takes effect, or is an error that says so."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertBackbone, LVBertElectra, LVBertMaskedLM, LVBertSupernet
from lvbert_tf.optimization import AdamW, WarmupLinearDecay
from tests.lvbert_tf.batches import TINY_SIZES, VOCABULARY_SIZE, pretraining_batch

ROUTE = [0, 1]


def _model(kind: str, dropout: float = 0.0, dtype: str = "float32") -> Any:
    keras.utils.set_random_seed(1)
    drop = {"dropout": dropout, "attention_dropout": dropout, "dtype": dtype}
    if kind == "supernet":
        return LVBertSupernet(
            VOCABULARY_SIZE, letters="sf", num_layers=2, **TINY_SIZES, **drop
        )
    backbone = LVBertBackbone(VOCABULARY_SIZE, "sf", **TINY_SIZES, **drop)
    if kind == "electra":
        return LVBertElectra(backbone, generator_fraction=0.5)
    return LVBertMaskedLM(backbone)


def _weights(model: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in model.trainable_variables]


def _largest_change(before: list[np.ndarray], model: Any) -> float:
    pairs = zip(before, _weights(model), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def _sgd_like(rate: float) -> AdamW:
    """Returns an optimizer whose first step is the gradient times `rate`, nearly."""
    return AdamW(rate, weight_decay=0.0, epsilon=1e6, clip_norm=None)


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param("supernet", "fit", marks=pytest.mark.slow),
        ("electra", "eager"),
        ("masked_lm", "fit"),
        pytest.param("supernet", "eager", marks=pytest.mark.slow),
        pytest.param("electra", "fit", marks=pytest.mark.slow),
        pytest.param("masked_lm", "eager", marks=pytest.mark.slow),
    ],
)
def test_a_second_compile_takes_effect(kind: str, way: str) -> None:
    batch = pretraining_batch(route=ROUTE)
    dataset = tf.data.Dataset.from_tensors(batch)
    model = _model(kind)
    # KerasHub's own metrics are for raw strings.
    kwargs = {"weighted_metrics": None} if kind == "masked_lm" else {}
    start = model.get_weights()

    def step() -> float:
        model.set_weights(start)
        before = _weights(model)
        if way == "eager":
            model.train_step(batch)
        else:
            model.fit(dataset, verbose=0)
        return _largest_change(before, model)

    model.compile(optimizer=_sgd_like(1e6), **kwargs)
    first = step()
    model.compile(optimizer=_sgd_like(4e6), **kwargs)
    assert first > 0
    assert step() == pytest.approx(4 * first, rel=1e-3)
    model.optimizer.learning_rate = 0.0
    assert step() == 0.0


@pytest.mark.parametrize(
    "kind",
    [
        "masked_lm",
        pytest.param("supernet", marks=pytest.mark.slow),
        pytest.param("electra", marks=pytest.mark.slow),
    ],
)
def test_a_function_that_a_caller_traced_fails_after_a_change(kind: str) -> None:
    batch = pretraining_batch(route=ROUTE)
    model = _model(kind, dropout=0.2)
    model.compile(optimizer=AdamW(1e-3))
    step = tf.function(model.train_step, autograph=False)
    step(batch)
    model.run_seed = 0  # what it is already
    step(batch)
    for change in (
        lambda: setattr(model, "run_seed", model.run_seed + 1),
        lambda: model.compile(optimizer=AdamW(1e-2)),
    ):
        change()
        before = _weights(model)
        with pytest.raises(tf.errors.InvalidArgumentError, match="run_seed"):
            step(batch)
        assert _largest_change(before, model) == 0.0
        model.optimizer.build(model.trainable_variables)
        step = tf.function(model.train_step, autograph=False)
        step(batch)


def test_the_weights_of_the_losses_are_read_again() -> None:
    batch = pretraining_batch()
    dataset = tf.data.Dataset.from_tensors(batch)
    model = _model("electra")
    model.compile(optimizer=AdamW(0.0))
    model.fit(dataset, verbose=0)
    model.discriminator_weight = 0.0
    found = model.fit(dataset, verbose=0).history
    assert found["loss"] == pytest.approx(found["generator_loss"], rel=1e-6)
    model.generator_weight = 3.0
    found = model.fit(dataset, verbose=0).history
    assert found["loss"][0] == pytest.approx(3 * found["generator_loss"][0], rel=1e-6)
    evaluate = tf.function(model.test_step, autograph=False)
    evaluate(batch)
    model.discriminator_weight = 50.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="discriminator_weight"):
        evaluate(batch)


def test_what_the_weights_were_made_for_is_fixed() -> None:
    supernet = _model("supernet")
    with pytest.raises(AttributeError, match="letters"):
        supernet.letters = "cs"
    with pytest.raises(AttributeError, match="num_layers"):
        supernet.num_layers = 3
    with pytest.raises(AttributeError, match="generator_fraction"):
        _model("electra").generator_fraction = 1.0


def test_an_optimizer_is_settled_once_it_is_built() -> None:
    optimizer = AdamW(1e-3)
    optimizer.clip_norm = 2.0
    optimizer.build([keras.Variable(np.zeros(2, "float32"))])
    with pytest.raises(AttributeError, match="clip_norm"):
        optimizer.clip_norm = None
    with pytest.raises(AttributeError, match="learning_rate"):
        optimizer.learning_rate = WarmupLinearDecay(1e-3, 10)
    optimizer.learning_rate = 1e-4
    assert float(optimizer.current_learning_rate()) == pytest.approx(1e-4)
    schedule = WarmupLinearDecay(1e-3, 10)
    with pytest.raises(AttributeError, match="total_steps"):
        schedule.total_steps = 20


@pytest.mark.parametrize("kind", ["supernet", "electra", "masked_lm"])
def test_float16_is_refused_with_the_reason(kind: str) -> None:
    model = _model(kind, dtype="mixed_float16")

    def train() -> None:
        model.compile(optimizer=AdamW(1e-3))
        model.train_step(pretraining_batch(route=ROUTE))

    with pytest.raises(ValueError, match=r"not pretrained in float16.*bfloat16"):
        train()


@pytest.mark.parametrize("kind", ["supernet", "electra", "masked_lm"])
def test_another_optimizer_is_refused_by_name(kind: str) -> None:
    model = _model(kind)
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    with pytest.raises(ValueError, match="Received: optimizer=Adam"):
        model.train_step(pretraining_batch(route=ROUTE))


def test_generator_and_discriminator_drop_different_values() -> None:
    model = _model("electra", dropout=0.5)
    seen: list[np.ndarray] = []
    dropout = model.discriminator.embeddings.dropout
    call = dropout.call

    def spy(inputs: Any, training: bool | None = False) -> Any:
        result = call(inputs, training=training)
        seen.append(np.asarray(result) == 0)
        return result

    dropout.call = spy
    model.compile(optimizer=AdamW(1e-3))
    for _ in range(2):
        model.train_step(pretraining_batch())
    generator, discriminator, again, _ = seen
    # Two independent masks of rate 0.5 agree in half of the places.
    assert 0.4 < float(np.mean(generator == discriminator)) < 0.6
    np.testing.assert_array_equal(generator, again)
