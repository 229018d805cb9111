"""The three layers and what surrounds them."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf.cost import Dimensions
from lvbert_tf.layers import (
    DynamicConv,
    FeedForward,
    LayerOptions,
    ResidualLayer,
    SelfAttention,
    make_layer,
)
from lvbert_tf.layers.dropout import Dropout, dropout_seed
from lvbert_tf.layers.encoder import Encoder
from tests.lvbert_tf.layers import layer_checks

OPTIONS = LayerOptions(
    hidden_dim=16, intermediate_dim=40, num_heads=2, attention_dropout=0.25
)


def _residual(letter: str, dtype: str | None = None) -> Any:
    keras.utils.set_random_seed(0)
    layer = ResidualLayer(
        make_layer(letter, OPTIONS, dtype=dtype, name="layer"),
        dropout=0.25,
        dtype=dtype,
    )
    layer.build((None, None, 16))
    for variable in layer.trainable_variables:  # far from where they start
        variable.assign(
            np.random.default_rng(1).normal(0.1, 0.3, tuple(variable.shape))
        )
    return layer


@pytest.mark.parametrize("letter", ["c", "s", "f"])
class TestEveryLayer:
    def test_config(self, letter: str) -> None:
        layer_checks.check_config_round_trip(_residual(letter).layer)

    def test_saving(self, letter: str, tmp_path: Path) -> None:
        layer = _residual(letter)
        layer_checks.check_weights_round_trip(layer, tmp_path / "m.keras")

    def test_padding(self, letter: str) -> None:
        layer_checks.check_padding_cannot_leak(_residual(letter))

    @pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
    def test_mixed_precision(self, letter: str, dtype: str) -> None:
        layer_checks.check_finite_in(lambda dtype: _residual(letter, dtype), dtype)

    def test_cost(self, letter: str) -> None:
        dimensions = Dimensions(
            embedding_dim=8,
            hidden_dim=16,
            intermediate_dim=40,
            num_heads=2,
            vocabulary_size=50,
        )
        layer_checks.check_cost(_residual(letter), letter, dimensions)


def test_unmasked_convolution_sees_the_padding() -> None:
    x, mask = layer_checks.inputs()
    layer = DynamicConv(16, 2, mask_convolution=False)
    moved = x + 100 * (1 - mask[..., None])
    difference = np.abs(layer(moved, padding_mask=mask) - layer(x, padding_mask=mask))
    assert difference[1, 10].max() > 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DynamicConv(16, 2, kernel_size=8), "odd and positive.*kernel_size=8"),
        (lambda: DynamicConv(16, 2, kernel_size=-1), "kernel_size=-1"),
        (lambda: DynamicConv(16, 3), "must divide `hidden_dim`.*num_heads=3"),
        (lambda: SelfAttention(16, 5), "must divide `hidden_dim`.*num_heads=5"),
        (lambda: SelfAttention(16, 0), "num_heads=0"),
        (lambda: Dropout(1.0), "rate=1.0"),
        (lambda: make_layer("q", OPTIONS), "No layer is registered for 'q'"),
    ],
)
def test_impossible_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_non_default_arguments_survive_the_configuration() -> None:
    for layer in (
        DynamicConv(16, 4, kernel_size=5, mask_convolution=False),
        SelfAttention(16, 4, attention_dropout=0.3),
        FeedForward(16, 24),
        Dropout(0.3, seed=4),
        Encoder("cs", 16, 24, 4, 5, 0.2, 0.3, mask_convolution=False),
    ):
        layer_checks.check_config_round_trip(layer)


class TestDropout:
    def test_inside_a_scope_it_is_a_function_of_the_seed(self) -> None:
        layer, x = Dropout(0.5, name="a"), tf.ones((4, 8))

        def drop(seed: list[int]) -> np.ndarray:
            with dropout_seed(tf.constant(seed)):
                return np.asarray(layer(x, training=True))

        assert np.array_equal(drop([1, 2]), drop([1, 2]))
        assert not np.array_equal(drop([1, 2]), drop([1, 3]))

    def test_layers_differ_within_a_scope(self) -> None:
        x = tf.ones((4, 8))
        with dropout_seed(tf.constant([1, 2])):
            first = Dropout(0.5, name="a")(x, training=True)
            second = Dropout(0.5, name="b")(x, training=True)
        assert not np.array_equal(first, second)

    def test_outside_a_scope_every_call_differs(self) -> None:
        layer, x = Dropout(0.5), tf.ones((4, 8))
        assert not np.array_equal(layer(x, training=True), layer(x, training=True))

    def test_it_keeps_the_mean(self) -> None:
        dropped = Dropout(0.3)(tf.ones((100, 100)), training=True)
        # Five standard errors: sqrt(0.3 / 0.7) / 100.
        assert float(tf.reduce_mean(dropped)) == pytest.approx(1.0, abs=0.033)

    def test_it_does_nothing_at_inference(self) -> None:
        x = tf.ones((4, 8))
        assert np.array_equal(Dropout(0.5)(x), x)
        assert np.array_equal(Dropout(0.0)(x, training=True), x)


@pytest.mark.parametrize("architecture", ["c", "s", "f", "ccsff", "(csf)x8", "sx25"])
def test_any_length_and_order_builds(architecture: str) -> None:
    encoder = Encoder(architecture, 8, 16, 2, dtype="float32")
    x = encoder(np.zeros((1, 3, 4), "float32"), padding_mask=np.ones((1, 3)))
    assert x.shape == (1, 3, 8)
    assert len(encoder.layer_list) == len(encoder.architecture)
    assert encoder.projection is not None
