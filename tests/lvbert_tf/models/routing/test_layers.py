"""The ways to follow a route give the same values, gradients and updates."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertSupernet
from lvbert_tf.models.routing import traced_layers
from lvbert_tf.models.routing.two_passes import make_stacks
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import TINY_SIZES, VOCABULARY_SIZE, pretraining_batch


def _supernet(
    compiled: bool, num_layers: int, letters: str = "csf", dropout: float = 0.0
) -> Any:
    keras.utils.set_random_seed(1)
    supernet = LVBertSupernet(
        VOCABULARY_SIZE,
        letters=letters,
        num_layers=num_layers,
        dropout=dropout,
        attention_dropout=dropout,
        **TINY_SIZES,
    )
    supernet.encoder.set_compiled(compiled)
    # Of plain steps a gradient of another size would show; Adam divides by it.
    supernet.compile(optimizer=AdamW(1e-2, epsilon=1.0))
    supernet.optimizer.build(supernet.trainable_variables)
    return supernet


def _assert_equal_after_steps(one: Any, other: Any, steps: list[Any]) -> None:
    letters, num_layers = len(one.letters), one.num_layers
    draw = np.random.default_rng(0)
    for i in range(4):
        route = list(draw.integers(0, letters, num_layers))
        batch = pretraining_batch(i, route=route, step=i)
        figures, expected = (step(batch) for step in steps)
        for name, value in expected.items():
            assert float(figures[name]) == pytest.approx(float(value), rel=1e-5), name
    for ours, theirs in zip(one.weights, other.weights, strict=True):
        difference = np.abs(ours.numpy() - theirs.numpy()).max()
        assert difference < 5e-6, ours.path


@pytest.mark.parametrize(
    "num_layers", [1, pytest.param(6, marks=pytest.mark.slow)], ids=["1", "6"]
)
def test_traced_once_or_for_every_position(num_layers: int) -> None:
    """With dropout; 6 positions leave a group of 2 after one of 4."""
    nets = [_supernet(compiled, num_layers, dropout=0.1) for compiled in (False, True)]
    steps = [tf.function(net.train_step, autograph=False) for net in nets]
    _assert_equal_after_steps(*nets, steps)


def test_keras_does_not_compile_by_itself() -> None:
    """`compile` decides "auto" by this where there is a GPU."""
    supernet = _supernet(False, 1)
    assert not all(layer.supports_jit for layer in supernet._flatten_layers())


def test_a_second_gradient_of_a_step_is_refused() -> None:
    supernet = _supernet(False, 1, dropout=0.1)
    batch = pretraining_batch(0, route=[2])
    encoder = supernet.encoder
    x = tf.ones((4, 16, 8))

    @tf.function
    def twice() -> Any:
        slots = encoder.read_slots(batch["route"][0])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(slots)
            y = encoder.encode(
                x, batch["route"][0], slots, batch["padding_mask"], for_gradient=True
            )
        return tape.gradient(y, slots), tape.gradient(y, slots)

    with pytest.raises(tf.errors.NotFoundError):
        twice()


def test_a_step_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow keeps a stack that is not destroyed for the life of the process."""
    handles: list[Any] = []

    def remembered(passes: Any) -> Any:
        stacks = make_stacks(passes)
        handles.extend(stacks.values())
        return stacks

    monkeypatch.setattr(traced_layers, "make_stacks", remembered)
    supernet = _supernet(False, 5, dropout=0.1)
    batch = pretraining_batch(0, route=[0, 1, 2, 0, 1])

    @tf.function(autograph=False)
    def step() -> Any:
        supernet.train_step(batch)
        return handles

    left = step()
    assert len(left) == 2 * 5
    for handle in left:
        with pytest.raises(tf.errors.NotFoundError):
            tf.raw_ops.StackCloseV2(handle=handle)


def test_a_call_alone_keeps_nothing_for_a_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(passes: Any) -> None:
        raise AssertionError("a stack for a gradient that nobody takes")

    monkeypatch.setattr(traced_layers, "make_stacks", refuse)
    supernet = _supernet(False, 3, dropout=0.1)
    batch = pretraining_batch(0, route=[0, 1, 2])
    first, second = (np.asarray(supernet(batch, training=True)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, supernet(batch, training=False))


def test_a_tape_of_the_user_gets_the_step_s_gradient() -> None:
    """`call` in training, differentiated by TensorFlow, against `train_step`."""
    supernet = _supernet(False, 3, dropout=0.1)
    batch = pretraining_batch(0, route=[0, 1, 2])
    route = batch["route"][0]
    x = tf.random.stateless_normal((4, 16, 8), [1, 2])

    @tf.function(autograph=False)
    def gradients(for_gradient: bool) -> Any:
        slots = supernet.encoder.read_slots(route)
        with tf.GradientTape() as tape:
            tape.watch([x, slots])
            y = supernet.encoder.encode(
                *(x, route, slots, batch["padding_mask"]),
                training=True,
                for_gradient=for_gradient,
                seed=tf.constant([3, 4]),
            )
            loss = tf.reduce_sum(y**2)
        grad_x, grad_slots = tape.gradient(loss, [x, slots])
        return [y, grad_x, *tf.nest.flatten(grad_slots)]

    for ours, theirs in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
