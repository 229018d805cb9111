"""A routed training step against the same path built statically; time to first step."""

import json
import statistics
import time
from typing import Any

import numpy as np
import tensorflow as tf

import lvbert_tf
from benchmarks.measure import milliseconds, printed_in_new_process
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
    """Measures pairs of steps over random paths, small size, dropout on.

    Each path in a process of its own: how the heap happens to lie moves a ratio by some
    per cent, and stays for the life of a process.
    """
    measured = [_in_new_process("print_path", path) for path in range(paths)]
    ratios = [run["routed"] / run["static"] for run in measured]
    started = [run["seconds_to_first_step"] for run in measured]
    return {
        "routed_to_static": {"median": statistics.median(ratios), "all": ratios},
        "traces": max(run["traces"] for run in measured),
        "seconds_to_first_step_beyond_tensorflow": {
            "median": statistics.median(started),
            "all": started,
            "mirrored_2": _in_new_process("print_mirrored")["seconds_to_first_step"],
        },
        "seconds_to_import_tensorflow": statistics.median(
            run["seconds_to_import_tensorflow"] for run in measured
        ),
    }


def _in_new_process(function: str, *arguments: int) -> dict[str, Any]:
    """Returns what a function of this module prints, and the time until TensorFlow."""
    call = f"{function}({''.join(f'{a}, ' for a in arguments)}imported)"
    *_, figures, seconds = printed_in_new_process(
        "import time; start = time.perf_counter(); import tensorflow; "
        "imported = time.perf_counter(); import benchmarks.supernet_step as b; "
        f"b.{call}; print(imported - start)"
    )
    return {**json.loads(figures), "seconds_to_import_tensorflow": float(seconds)}


def print_path(path: int, imported: float) -> None:
    """Prints the milliseconds of a routed step and of the same path built statically.

    Args:
        path: step of the run whose route to take.
        imported: `time.perf_counter()` when TensorFlow was there.
    """
    values = route(0, path, 24, 3)
    batch = make_batch(values, path)
    supernet = lvbert_tf.LVBertSupernet(VOCABULARY)
    routed = compiled(supernet)
    float(routed(batch)["loss"])
    started = time.perf_counter() - imported
    static = compiled(supernet.extract("".join("csf"[v] for v in values)))
    times = milliseconds(
        {
            "routed": lambda: routed(batch)["loss"].numpy(),
            "static": lambda: static(batch)["loss"].numpy(),
        },
        repetitions=11,
        warmups=2,
    )
    float(routed(make_batch(route(1, path, 24, 3), path))["loss"])
    figures = {
        "routed": times["routed"]["median"],
        "static": times["static"]["median"],
        "traces": routed.experimental_get_tracing_count(),
        "seconds_to_first_step": started,
    }
    print(json.dumps(figures))


def print_mirrored(imported: float) -> None:
    """Prints the seconds to the first step on two devices that share the processor.

    Args:
        imported: `time.perf_counter()` when TensorFlow was there.
    """
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, devices)
    strategy = tf.distribute.MirroredStrategy(
        tf.config.list_logical_devices("CPU"),
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    with strategy.scope():
        supernet = lvbert_tf.LVBertSupernet(VOCABULARY)
        compiled(supernet)
    batch = {k: v[: BATCH // 2] for k, v in make_batch([0] * 24).items()}
    step = tf.function(
        lambda: strategy.run(supernet.train_step, args=(batch,)), autograph=False
    )
    step()
    print(json.dumps({"seconds_to_first_step": time.perf_counter() - imported}))
