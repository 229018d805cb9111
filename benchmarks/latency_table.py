"""Whether a table of latencies tells what whole architectures take on a runtime."""

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lvbert_tf.presets import model_size
from training.studies import latency

ARCHITECTURES, LAYERS, REPEATS = 10, 12, 25


def run(runtime: str = "onnx", sequence_length: int = 128) -> dict[str, Any]:
    """Predicts ten random architectures by the table, then measures them.

    Returns:
        For each its prediction and its median, in milliseconds, and their ratio; and
        the largest distance of a ratio from 1.
    """
    generator = np.random.default_rng(0)
    names = [
        "".join(generator.choice(list("csf"), size=LAYERS))
        for _ in range(ARCHITECTURES)
    ]
    letters = list("csf")
    with TemporaryDirectory() as folder:
        stacks = latency.make_stacks(
            [*latency.stack_architectures(letters), *names],
            model_size("small"),
            1,
            sequence_length,
            runtime=runtime,
            threads=0,
            seed=0,
            folder=Path(folder),
        )
        # All in turn, so that a busy machine slows the table's stacks and the
        # architectures alike.
        times = latency.measure(stacks, REPEATS)
    table = latency.table_of(times, letters)
    rows = {}
    for name in names:
        predicted = latency.predicted_milliseconds(table, name)
        median = statistics.median(times[name])
        rows[name] = {
            "predicted_ms": predicted,
            "measured_ms": median,
            "ratio": predicted / median,
        }
    worst = max(abs(row["ratio"] - 1) for row in rows.values())
    return {
        "runtime": runtime,
        "table": table,
        "architectures": rows,
        "largest_error": worst,
    }
