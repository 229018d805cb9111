"""A routed training step against the same path built statically; time to first step."""

import statistics
import subprocess
import sys
from typing import Any

import numpy as np
import tensorflow as tf

import lvbert_tf
from benchmarks.measure import milliseconds
from lvbert_tf.optimization import AdamW
from lvbert_tf.search.sampling import route

BATCH, TOKENS, SLOTS, VOCABULARY = 16, 128, 19, 30522


def make_batch(route_values: Any, step: int = 0) -> dict[str, Any]:
    """Returns a random batch of the paper's length and share of masked tokens."""
    draw = np.random.default_rng(step)
    return {
        "token_ids": tf.constant(
            draw.integers(5, VOCABULARY, (BATCH, TOKENS)), "int32"
        ),
        "segment_ids": tf.zeros((BATCH, TOKENS), "int32"),
        "padding_mask": tf.ones((BATCH, TOKENS), "int32"),
        "mask_positions": tf.constant(
            np.stack([draw.permutation(TOKENS)[:SLOTS]] * BATCH), "int32"
        ),
        "mask_ids": tf.constant(draw.integers(5, VOCABULARY, (BATCH, SLOTS)), "int32"),
        "mask_weights": tf.ones((BATCH, SLOTS)),
        "route": tf.constant([list(route_values)] * BATCH, "int32"),
        "step": tf.fill((BATCH,), tf.constant(step, "int64")),
    }


def compiled(model: Any) -> Any:
    """Returns the model's training step with an optimizer as one traced function."""
    model.compile(optimizer=AdamW(1e-4))
    model.optimizer.build(model.trainable_variables)
    return tf.function(model.train_step, autograph=False)


def run(paths: int = 7) -> dict[str, Any]:
    """Measures pairs of steps over random paths, small size, dropout on."""
    supernet = lvbert_tf.LVBertSupernet(VOCABULARY)
    routed = compiled(supernet)
    ratios = []
    for path in range(paths):
        values = route(0, path, 24, 3)
        batch = make_batch(values, path)
        model = supernet.extract("".join("csf"[v] for v in values))
        static = compiled(model)
        times = milliseconds(
            {
                "routed": lambda b=batch: routed(b)["loss"].numpy(),
                "static": lambda b=batch, f=static: f(b)["loss"].numpy(),
            },
            repetitions=7,
            warmups=2,
        )
        ratios.append(times["routed"]["median"] / times["static"]["median"])
    return {
        "routed_to_static": {"median": statistics.median(ratios), "all": ratios},
        "traces": routed.experimental_get_tracing_count(),
        "seconds_to_first_step": first_step_seconds(),
    }


def first_step_seconds() -> dict[str, float]:
    """Returns the seconds from start to the first finished step, in a new process."""
    code = """
import time
start = time.perf_counter()
import tensorflow
imported = time.perf_counter()
import benchmarks.supernet_step as b
import lvbert_tf
net = lvbert_tf.LVBertSupernet(b.VOCABULARY)
step = b.compiled(net)
float(step(b.make_batch([0] * 24))["loss"])
done = time.perf_counter()
print(imported - start, done - imported)
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    imported, stepped = map(float, output.stdout.split())
    return {"importing_tensorflow": imported, "beyond_that": stepped}
