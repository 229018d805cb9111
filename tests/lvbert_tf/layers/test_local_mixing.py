"""Block-wise sums over neighbours against the textbook sum."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.layers.local_mixing import depthwise_over_tokens, mix_neighbours


def _textbook(kernels: np.ndarray, values: np.ndarray) -> np.ndarray:
    batch, tokens, heads, size = kernels.shape
    dim = values.shape[2] // heads
    split = values.reshape(batch, tokens, heads, dim)
    out = np.zeros_like(split)
    for t in range(tokens):
        for k in range(size):
            source = t + k - size // 2
            if 0 <= source < tokens:
                out[:, t] += kernels[:, t, :, k, None] * split[:, source]
    return out.reshape(values.shape)


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 3),
    tokens=st.integers(1, 80),
    heads=st.integers(1, 3),
    dim=st.integers(1, 4),
    half=st.integers(0, 5),
    seed=st.integers(0, 99),
)
def test_it_is_the_textbook_sum(
    batch: int, tokens: int, heads: int, dim: int, half: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    kernels = draw.normal(size=(batch, tokens, heads, 2 * half + 1))
    values = draw.normal(size=(batch, tokens, heads * dim))
    found = np.asarray(mix_neighbours(tf.constant(kernels), tf.constant(values)))
    assert np.abs(found - _textbook(kernels, values)).max() < 1e-12


def test_kernels_longer_than_a_block() -> None:
    draw = np.random.default_rng(0)
    kernels = draw.normal(size=(1, 100, 1, 71))
    values = draw.normal(size=(1, 100, 2))
    found = np.asarray(mix_neighbours(tf.constant(kernels), tf.constant(values)))
    assert np.abs(found - _textbook(kernels, values)).max() < 1e-12


@pytest.mark.parametrize("tokens", [1, 5, 33])
def test_depthwise_is_a_sum_with_fixed_kernels(tokens: int) -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(2, tokens, 6)).astype("float32")
    kernel = draw.normal(size=(9, 6)).astype("float32")
    found = np.asarray(depthwise_over_tokens(tf.constant(values), tf.constant(kernel)))
    expected = _textbook(
        np.broadcast_to(kernel.T[None, None], (2, tokens, 6, 9)), values
    )
    assert np.abs(found - expected).max() < 1e-5


def test_gradients_equal_numerical_ones() -> None:
    draw = np.random.default_rng(0)
    kernels = tf.constant(draw.normal(size=(1, 37, 2, 3)))
    values = tf.constant(draw.normal(size=(1, 37, 4)))
    theory, numeric = tf.test.compute_gradient(mix_neighbours, [kernels, values])
    for ours, expected in zip(theory, numeric, strict=True):
        assert np.abs(ours - expected).max() < 1e-8
