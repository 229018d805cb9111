"""The dynamic-convolution core and layer against their alternatives.

Kernels and values in, mixed values out, at batch 32, H 256, 4 heads, K 9. The official
formulation stacks K shifted copies of the values and multiplies small matrices.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.measure import milliseconds, paired_ratio
from lvbert_tf.layers import LayerOptions, ResidualLayer, make_layer
from lvbert_tf.layers.local_mixing import mix_neighbours

BATCH, HIDDEN, HEADS, KERNEL = 32, 256, 4, 9


def official_mixing(kernels: Any, values: Any) -> Any:
    """The formulation of the official code: K shifted copies, small matmuls."""
    batch, tokens, hidden = values.shape
    dim, pad = hidden // HEADS, KERNEL // 2
    padded = tf.pad(values, [[0, 0], [pad, pad], [0, 0]])
    shifted = tf.stack([padded[:, k : k + tokens] for k in range(KERNEL)], axis=-1)
    shifted = tf.reshape(shifted, (batch * tokens * HEADS, dim, KERNEL))
    flat = tf.reshape(kernels, (batch * tokens * HEADS, KERNEL, 1))
    return tf.reshape(tf.matmul(shifted, flat), (batch, tokens, hidden))


def _both_ways(
    function: Callable[..., Any], *inputs: Any
) -> dict[str, Callable[[], Any]]:
    @tf.function(autograph=False)
    def forward() -> Any:
        return function(*inputs)

    @tf.function(autograph=False)
    def both() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(function(*inputs)))
        return tape.gradient(loss, inputs)

    return {
        "forward": lambda: forward().numpy(),
        "both": lambda: [g.numpy() for g in both()],
    }


def core(tokens: int) -> dict[str, Any]:
    """Times the core at one length; the matmul is one H x H product of all tokens."""
    draw = np.random.default_rng(0)
    kernels = tf.nn.softmax(
        tf.constant(draw.normal(size=(BATCH, tokens, HEADS, KERNEL)), tf.float32)
    )
    values = tf.constant(draw.normal(size=(BATCH, tokens, HIDDEN)), tf.float32)
    flat = tf.reshape(values, (-1, HIDDEN))
    weights = tf.constant(draw.normal(size=(HIDDEN, HIDDEN)), tf.float32)
    ours = _both_ways(mix_neighbours, kernels, values)
    official = _both_ways(official_mixing, kernels, values)
    matmul = _both_ways(tf.matmul, flat, weights)
    assert np.allclose(ours["forward"](), official["forward"](), atol=1e-4)
    times = milliseconds(
        {
            f"{name}_{way}": case
            for name, ways in (
                ("ours", ours),
                ("official", official),
                ("matmul", matmul),
            )
            for way, case in ways.items()
        }
    )
    return {
        "tokens": tokens,
        "milliseconds": times,
        "official_to_ours_forward": paired_ratio(
            times, "official_forward", "ours_forward"
        ),
        "official_to_ours_both": paired_ratio(times, "official_both", "ours_both"),
        "ours_to_matmul_both": paired_ratio(times, "ours_both", "matmul_both"),
    }


def layers(tokens: int) -> dict[str, Any]:
    """Times whole residual layers, without dropout, at one length."""
    options = LayerOptions(HIDDEN, 4 * HIDDEN, HEADS)
    x = tf.random.stateless_normal((BATCH, tokens, HIDDEN), (0, 1))
    mask = tf.ones((BATCH, tokens), tf.int32)
    cases = {}
    for letter in "csf":
        layer = ResidualLayer(make_layer(letter, options, name="layer"))
        layer.build(x.shape)
        for way, case in _layer_ways(layer, x, mask).items():
            cases[f"{letter}_{way}"] = case
    times = milliseconds(cases)
    return {
        "tokens": tokens,
        "milliseconds": times,
        "c_to_s_forward": paired_ratio(times, "c_forward", "s_forward"),
        "c_to_s_both": paired_ratio(times, "c_both", "s_both"),
    }


def _layer_ways(layer: Any, x: Any, mask: Any) -> dict[str, Callable[[], Any]]:
    weights = [v.value for v in layer.trainable_variables]

    @tf.function(autograph=False)
    def forward() -> Any:
        return layer(x, padding_mask=mask)

    @tf.function(autograph=False)
    def both() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x, padding_mask=mask)))
        return tape.gradient(loss, [x, *weights])

    return {
        "forward": lambda: forward().numpy(),
        "both": lambda: [g.numpy() for g in both()],
    }


def run() -> dict[str, Any]:
    """Measures core and layers at T 128 and 512."""
    cores = [core(128), core(512)]
    per_token = [c["milliseconds"]["ours_both"]["median"] / c["tokens"] for c in cores]
    return {
        "core": cores,
        "cost_per_token_512_to_128": per_token[1] / per_token[0],
        "layers": [layers(128), layers(512)],
    }
