"""LV-BERT-small: model FLOPs a second as a share of a plain matmul's."""

from typing import Any

import tensorflow as tf

from benchmarks.measure import milliseconds
from lvbert_tf import LVBertBackbone
from lvbert_tf.cost import Dimensions, layer_flops

BATCH, TOKENS = 16, 128


def matmul_flops_per_second(hidden: int = 256, inner: int = 1024) -> float:
    """Returns the rate of a float32 matmul of the model's own largest shape."""
    left = tf.random.stateless_normal((BATCH * TOKENS, hidden), (0, 1))
    right = tf.random.stateless_normal((hidden, inner), (0, 2))

    @tf.function(autograph=False)
    def product() -> Any:
        return tf.matmul(left, right)

    times = milliseconds({"matmul": lambda: product().numpy()}, repetitions=31)
    return 2 * BATCH * TOKENS * hidden * inner / (times["matmul"]["median"] / 1000)


def run() -> dict[str, Any]:
    """Measures forward and forward+backward, without and with dropout."""
    backbone = LVBertBackbone.from_size("small")
    ids = tf.random.stateless_uniform(
        (BATCH, TOKENS), (0, 1), maxval=30522, dtype=tf.int32
    )
    inputs = {
        "token_ids": ids,
        "segment_ids": tf.zeros_like(ids),
        "padding_mask": tf.ones_like(ids),
    }
    weights = [v.value for v in backbone.trainable_variables]
    cases = {}
    for training in (False, True):

        @tf.function(autograph=False)
        def forward(training: bool = training) -> Any:
            return backbone(inputs, training=training)

        @tf.function(autograph=False)
        def both(training: bool = training) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(backbone(inputs, training=training)))
            gradients = tape.gradient(loss, weights)
            return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(g)) for g in gradients])

        name = "dropout" if training else "plain"
        cases[f"{name}_forward"] = lambda f=forward: f().numpy()
        cases[f"{name}_both"] = lambda f=both: f().numpy()
    before = matmul_flops_per_second()
    times = milliseconds(cases, repetitions=7)
    rate = (before + matmul_flops_per_second()) / 2
    dimensions = Dimensions.of_size("small")
    forward_flops = BATCH * sum(
        layer_flops(letter, dimensions, TOKENS) for letter in backbone.architecture
    )
    shares = {
        name: (3 if name.endswith("both") else 1)
        * forward_flops
        / (value["median"] / 1000)
        / rate
        for name, value in times.items()
    }
    return {
        "milliseconds": times,
        "matmul_gflops_per_second": rate / 1e9,
        "share_of_matmul": shares,
    }
