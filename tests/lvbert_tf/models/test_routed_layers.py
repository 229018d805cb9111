"""The ways to follow a route give the same values, gradients and updates."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertSupernet
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import VOCABULARY_SIZE, pretraining_batch


def _supernet(
    compiled: bool, num_layers: int, letters: str = "csf", dropout: float = 0.0
) -> Any:
    keras.utils.set_random_seed(1)
    supernet = LVBertSupernet(
        VOCABULARY_SIZE,
        letters=letters,
        num_layers=num_layers,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=2,
        dropout=dropout,
        attention_dropout=dropout,
        max_sequence_length=32,
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


@pytest.mark.parametrize("num_layers", [1, 6], ids=lambda n: f"{n} positions")
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
                x, batch["route"][0], slots, batch["padding_mask"], training=True
            )
        return tape.gradient(y, slots), tape.gradient(y, slots)

    with pytest.raises(tf.errors.InvalidArgumentError, match="empty"):
        twice()
