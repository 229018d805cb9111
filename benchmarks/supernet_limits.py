"""What a supernet step makes of the machine: its arithmetic, its memory, its input.

The small size, dropout on. Every figure is a ratio of two measurements of one run.
"""

import json
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import lvbert_tf
from benchmarks.encoder import matmul_flops_per_second
from benchmarks.measure import milliseconds, printed_in_new_process
from benchmarks.search_supernet import prepared_data
from benchmarks.supernet_step import (
    BATCH,
    SLOTS,
    TOKENS,
    VOCABULARY,
    compiled,
    make_batch,
)
from lvbert_tf.cost import Dimensions, model_flops
from lvbert_tf.search.sampling import route

_LAYERS, _LETTERS = 24, "csf"
_PATHS = 7
_ROUNDS = 7
_PROCESSES = 3


def run() -> dict[str, Any]:
    """Measures arithmetic and input in this process, memory in processes of its own."""
    supernet = lvbert_tf.LVBertSupernet(VOCABULARY)
    step = compiled(supernet)
    return {
        "share_of_matmul": _arithmetic(step),
        "memory": _memory(),
        "input": _input(step),
        "traces": step.experimental_get_tracing_count(),
    }


def _path(step_index: int) -> str:
    return "".join(_LETTERS[i] for i in route(0, step_index, _LAYERS, len(_LETTERS)))


def step_flops(architecture: str) -> float:
    """Returns the model FLOPs of a training step: three times the forward pass."""
    dimensions = Dimensions.of_size("small")
    encoder = model_flops(architecture, dimensions, TOKENS)
    embedding = dimensions.embedding_dim
    head = 2 * SLOTS * embedding * (dimensions.hidden_dim + VOCABULARY)
    return 3 * BATCH * (encoder + head)


def _arithmetic(step: Any) -> dict[str, Any]:
    """Model FLOPs a second of the whole step, optimizer included, over a matmul's."""
    shares = []
    for step_index in range(_PATHS):
        values = route(0, step_index, _LAYERS, len(_LETTERS))
        batch = make_batch(values, step_index)
        before = matmul_flops_per_second()
        times = milliseconds(
            {"step": lambda b=batch: step(b)["loss"].numpy()},
            repetitions=_ROUNDS,
            warmups=2,
        )
        rate = (before + matmul_flops_per_second()) / 2
        seconds = times["step"]["median"] / 1000
        shares.append(step_flops(_path(step_index)) / seconds / rate)
    return {"median": statistics.median(shares), "all": shares}


def _memory() -> dict[str, Any]:
    """Peak memory over weights, moments and what one path's step needs by itself.

    What a path needs is measured: the peak of the same step of a stand-alone model,
    less its weights and moments. Peaks differ between processes, by how the threads'
    work happens to overlap, so each is the median of some.
    """
    measured = {
        kind: [_peak(kind) for _ in range(_PROCESSES)] for kind in ("routed", "static")
    }
    peaks = {
        kind: [run["peak_mib"] for run in several] for kind, several in measured.items()
    }
    held = {
        kind: several[0]["weights_and_moments_mib"]
        for kind, several in measured.items()
    }
    path = statistics.median(peaks["static"]) - held["static"]
    expected = held["routed"] + path
    return {
        "peaks_mib": peaks,
        "weights_and_moments_mib": held["routed"],
        "one_path_mib": path,
        "ratio": statistics.median(peaks["routed"]) / expected,
    }


def _peak(kind: str) -> dict[str, float]:
    """Returns what `print_peak` prints in a new process."""
    code = f"from benchmarks.supernet_limits import print_peak; print_peak({kind!r})"
    result: dict[str, float] = json.loads(printed_in_new_process(code)[-1])
    return result


def print_peak(kind: str) -> None:
    """Trains some steps and prints by how much this process grew at most, in MiB.

    Args:
        kind: `"routed"` or `"static"`, the same path as a model of its own.
    """
    tf.matmul(tf.ones((8, 8)), tf.ones((8, 8))).numpy()  # the runtime itself
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    before = pages * resource.getpagesize() / 2**20
    model: Any = (
        lvbert_tf.LVBertSupernet(VOCABULARY)
        if kind == "routed"
        else lvbert_tf.LVBertMaskedLM(
            lvbert_tf.LVBertBackbone.from_size("small", architecture=_path(0))
        )
    )
    step = compiled(model)
    values = route(0, 0, _LAYERS, len(_LETTERS))
    for step_index in range(6):
        float(step(make_batch(values, step_index))["loss"])
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    weights = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    figures = {
        "peak_mib": peak - before,
        "weights_and_moments_mib": 3 * 4 * weights / 2**20,
    }
    print(json.dumps(figures))


def _input(step: Any) -> dict[str, Any]:
    """A step with the real input pipeline over one with the batch kept.

    Both take turns, and both see the same route every time.
    """
    from training.loop.batches import training_batches
    from training.run.devices import Distribution
    from training.run.options import Data

    data = Data(directory=str(prepared_data()), sequence_length=TOKENS)
    batches = training_batches(
        data,
        batch_size=BATCH,
        seed=0,
        distribution=Distribution(tf.distribute.get_strategy()),
    )
    source = iter(batches(0))
    values = tf.constant([list(route(0, 0, _LAYERS, len(_LETTERS)))] * BATCH, tf.int32)
    kept = {**next(source), "route": values}
    ratios = []
    float(step(kept)["loss"])
    for _ in range(3 * _ROUNDS):
        start = time.perf_counter()
        float(step({**next(source), "route": values})["loss"])
        middle = time.perf_counter()
        float(step(kept)["loss"])
        ratios.append((middle - start) / (time.perf_counter() - middle))
    return {
        "ratio": float(np.median(ratios)),
        "quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
    }
