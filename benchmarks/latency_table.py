"""Whether a table of latencies tells what whole architectures take on a runtime."""

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lvbert_tf.presets import model_size
from training.studies import latency

ARCHITECTURES, LAYERS, REPEATS = 10, 12, 60


def run(
    runtime: str = "onnx", sequence_length: int = 128, threads: int = 1
) -> dict[str, Any]:
    """Predicts ten random architectures by the table, and measures them.

    Returns:
        By medians and by fastest calls: for each its prediction and its time, in
        milliseconds, and their ratio; and the largest distance of a ratio from 1.
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
            threads=threads,
            seed=0,
            folder=Path(folder),
        )
        # All in turn, so that a busy machine slows the table's stacks and the
        # architectures alike.
        times = latency.measure(stacks, REPEATS)
    result: dict[str, Any] = {"runtime": runtime, "threads": threads}
    # The fastest call is what a machine can do; medians are what it did, and where
    # other programs run they tell of those too.
    for statistic, of in (("median", statistics.median), ("fastest", min)):
        summary = {name: [of(values)] for name, values in times.items()}
        table = latency.table_of(summary, letters)
        rows = {}
        for name in names:
            predicted = latency.predicted_milliseconds(table, name)
            (measured,) = summary[name]
            rows[name] = {
                "predicted_ms": predicted,
                "measured_ms": measured,
                "ratio": predicted / measured,
            }
        result[statistic] = {
            "table": {k: v for k, v in table.items() if k != "spread_milliseconds"},
            "architectures": rows,
            "largest_error": max(abs(row["ratio"] - 1) for row in rows.values()),
        }
    return result
