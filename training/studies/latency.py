"""``latency``: measures what a layer of each type costs on this machine."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from common.command_line import UsageError
from common.files import write_text
from lvbert_tf import LVBertBackbone
from lvbert_tf.architecture import letters as known_letters
from lvbert_tf.presets import ModelSize, model_size
from training.run.devices import set_up
from training.run.progress import Progress

_FEW, _MANY = 1, 9
"""Layers of the two stacks whose difference is what a layer costs: what a call costs
beside its layers falls out."""


def run(
    output: Path,
    *,
    batch: int = 1,
    sequence_length: int = 128,
    size: "str | ModelSize" = "small",
    letters: str = "csf",
    repeats: int = 30,
    overwrite: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Measures the forward pass of each layer type and writes the table.

    A layer's time is the difference between a stack of nine different layers and a
    stack of one, divided by eight; the stacks of all letters take turns, so that a
    busy machine slows all alike; the median counts. `base_milliseconds` is what is
    left: embeddings, projection and the call itself.

    Args:
        output: JSON file to write.
        batch: B, sequences at once.
        sequence_length: T.
        size: the model's size.
        letters: the layer types.
        repeats: measurements of each stack.
        overwrite: whether `output` may exist.
        seed: of weights and inputs.

    Returns:
        `milliseconds` and `spread_milliseconds` (half the interquartile range) by
        letter, `base_milliseconds`, `hardware` and what was measured.

    Raises:
        UsageError: if `output` exists or a letter is unknown.
    """
    if output.exists() and not overwrite:
        raise UsageError(
            f"--output {output}: exists already; choose another name or --overwrite"
        )
    if not output.absolute().parent.is_dir():
        raise UsageError(
            f"--output {output}: no such folder {output.absolute().parent}"
        )
    unknown = [letter for letter in letters if letter not in known_letters()]
    if unknown or not letters:
        raise UsageError(
            f"--letters {letters}: expected letters of {''.join(known_letters())}"
        )
    set_up(deterministic="off", seed=seed)
    sizes = model_size(size) if isinstance(size, str) else size
    stacks = {
        (letter, depth): _stack(letter * depth, sizes, batch, sequence_length, seed)
        for letter in dict.fromkeys(letters)
        for depth in (_FEW, _MANY)
    }
    times = _measure(stacks, repeats)
    per_layer = {
        letter: [
            (many - few) / (_MANY - _FEW)
            for many, few in zip(times[letter, _MANY], times[letter, _FEW], strict=True)
        ]
        for letter in dict.fromkeys(letters)
    }
    milliseconds = {a: max(0.0, statistics.median(t)) for a, t in per_layer.items()}
    base = statistics.median(
        statistics.median(times[a, _FEW]) - _FEW * milliseconds[a] for a in per_layer
    )
    result = {
        "milliseconds": milliseconds,
        "spread_milliseconds": {a: _spread(t) for a, t in per_layer.items()},
        "base_milliseconds": max(0.0, base),
        "batch": batch,
        "sequence_length": sequence_length,
        "size": size if isinstance(size, str) else None,
        "hidden_dim": sizes.hidden_dim,
        "repeats": repeats,
        "hardware": hardware(),
    }
    write_text(output, json.dumps(result, indent=2) + "\n")
    return {"output": str(output), **result}


def hardware() -> dict[str, Any]:
    """Returns what the measurement ran on."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": [detail.get("device_name", "unknown") for detail in details],
        "system": platform.platform(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }


def _stack(
    architecture: str, sizes: "ModelSize", batch: int, length: int, seed: int
) -> Callable[[], Any]:
    """Returns a function that runs a backbone once and waits for its output."""
    import numpy as np

    vocabulary_size = 1000  # looking up costs the same in a table of any size
    backbone = LVBertBackbone(
        vocabulary_size,
        architecture,
        sizes.embedding_dim,
        sizes.hidden_dim,
        sizes.intermediate_dim,
        sizes.num_heads,
        kernel_size=sizes.kernel_size,
        max_sequence_length=max(512, length),
    )
    generator = np.random.default_rng(seed)
    ids = generator.integers(vocabulary_size, size=(batch, length))
    inputs = {
        "token_ids": tf.constant(ids, tf.int32),
        "segment_ids": tf.zeros((batch, length), tf.int32),
        "padding_mask": tf.ones((batch, length), tf.int32),
    }
    forward = tf.function(lambda: backbone(inputs, training=False), autograph=False)
    return lambda: forward().numpy()


def _measure(
    stacks: Mapping[tuple[str, int], Callable[[], Any]], repeats: int
) -> dict[tuple[str, int], list[float]]:
    """Returns milliseconds of every stack, `repeats` times in turn."""
    for stack in stacks.values():  # traces, and warms up
        stack()
        stack()
    times: dict[tuple[str, int], list[float]] = {key: [] for key in stacks}
    with Progress(repeats, "rounds", "latency") as progress:
        for _ in range(repeats):
            for key, stack in stacks.items():
                started = time.perf_counter()
                stack()
                times[key].append(1000 * (time.perf_counter() - started))
            progress.update(1)
    return times


def _spread(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    quarters = statistics.quantiles(values, n=4)
    return (quarters[2] - quarters[0]) / 2


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
