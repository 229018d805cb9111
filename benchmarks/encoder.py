"""LV-BERT-small: model FLOPs a second as a share of a plain matmul's."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks.measure import milliseconds
from benchmarks.operations import shares_of_time
from lvbert_tf import Architecture, LVBertBackbone
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
    """Measures forward and forward+backward, without and with dropout.

    `forward` is inference; `both` is what training does, dropout rate 0 or 0.1.
    """
    ids = tf.random.stateless_uniform(
        (BATCH, TOKENS), (0, 1), maxval=30522, dtype=tf.int32
    )
    inputs = {
        "token_ids": ids,
        "segment_ids": tf.zeros_like(ids),
        "padding_mask": tf.ones_like(ids),
    }
    cases: dict[str, Callable[[], Any]] = {}
    for name, rate in (("plain", 0.0), ("dropout", 0.1)):
        backbone = LVBertBackbone.from_size(
            "small", dropout=rate, attention_dropout=rate
        )
        cases[f"{name}_forward"] = _forward(backbone, inputs, training=rate > 0)
        cases[f"{name}_both"] = _both(backbone, inputs)
    before = matmul_flops_per_second()
    times = milliseconds(cases, repetitions=9)
    rate = (before + matmul_flops_per_second()) / 2
    dimensions = Dimensions.of_size("small")
    forward_flops = BATCH * sum(
        layer_flops(letter, dimensions, TOKENS)
        for letter in Architecture.parse("lv_bert")
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
        "seconds_to_start": seconds_to_start(),
        "share_of_matmul": shares,
        "where_time_goes": {
            name: shares_of_time(cases[name]) for name in ("plain_both", "dropout_both")
        },
    }


def seconds_to_start() -> dict[str, float]:
    """Returns what importing and building cost, in a new process."""
    code = """
import time
start = time.perf_counter()
import keras_hub
hub = time.perf_counter()
import lvbert_tf
imported = time.perf_counter()
lvbert_tf.LVBertBackbone.from_size("base")
print(hub - start, imported - hub, time.perf_counter() - imported)
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    names = ("importing_keras_hub", "importing_lvbert_tf_beyond", "building_base")
    return dict(zip(names, map(float, output.stdout.split()), strict=True))


def _forward(
    backbone: LVBertBackbone, inputs: dict[str, Any], training: bool
) -> Callable[[], Any]:
    @tf.function(autograph=False)
    def forward() -> Any:
        return backbone(inputs, training=training)

    return lambda: forward().numpy()


def _both(backbone: LVBertBackbone, inputs: dict[str, Any]) -> Callable[[], Any]:
    weights = [v.value for v in backbone.trainable_variables]

    @tf.function(autograph=False)
    def both() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(backbone(inputs, training=True)))
        gradients = tape.gradient(loss, weights)
        return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(g)) for g in gradients])

    return lambda: both().numpy()
