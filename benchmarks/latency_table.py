"""Whether a table of latencies tells what whole architectures take on a runtime."""

import contextlib
import io
import json
import os
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lvbert_tf.presets import model_size
from training.studies import latency
from training.studies.latency_experiment import RUNTIMES
from training.studies.latency_stacks import Stack

ARCHITECTURES, LAYERS, REPEATS = 10, 12, 60
LETTERS = list("csf")


def run(
    runtimes: Iterable[str] = RUNTIMES, sequence_length: int = 128, threads: int = 1
) -> dict[str, Any]:
    """Predicts ten random architectures by the table, and measures them.

    Returns:
        For each runtime what `compared` gives.
    """
    # All in turn, so that a busy machine slows the table's stacks and the
    # architectures alike.
    with TemporaryDirectory() as folder:
        return {
            "threads": threads,
            **{
                runtime: compared(
                    latency.measure(
                        stacks_of(runtime, sequence_length, threads, Path(folder)),
                        REPEATS,
                    )
                )
                for runtime in runtimes
            },
        }


def random_architectures() -> list[str]:
    """Returns the architectures whose latencies are predicted."""
    generator = np.random.default_rng(0)
    return [
        "".join(generator.choice(LETTERS, size=LAYERS)) for _ in range(ARCHITECTURES)
    ]


def stacks_of(
    runtime: str, sequence_length: int, threads: int, folder: Path
) -> dict[str, Stack]:
    """Returns the table's stacks and the architectures, ready to be called.

    Args:
        runtime: one of `RUNTIMES`.
        sequence_length: T, tokens of the one sequence.
        threads: of each runtime, if TensorFlow does not run yet.
        folder: where artefacts are written, and those of an earlier call found.
    """
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, str(threads))
    return latency.make_stacks(
        [*latency.stack_architectures(LETTERS), *random_architectures()],
        model_size("small"),
        1,
        sequence_length,
        runtime=runtime,
        threads=threads,
        seed=0,
        folder=folder,
        export=_export_here,
    )


def compared(times: Mapping[str, list[float]]) -> dict[str, Any]:
    """Compares what a table predicts with what was measured.

    Args:
        times: milliseconds of every stack and architecture, round by round.

    Returns:
        By medians and by fastest calls: the table; for each architecture its
        prediction and its time, in milliseconds, and their ratio; and the largest
        distance of a ratio from 1.
    """
    result: dict[str, Any] = {}
    # The fastest call is what a machine can do; medians are what it did, and where
    # other programs run they tell of those too.
    for statistic, of in (("median", statistics.median), ("fastest", min)):
        summary = {name: [of(values)] for name, values in times.items()}
        table = latency.table_of(summary, LETTERS)
        rows = {}
        for name in random_architectures():
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


def _export_here(*words: str | Path) -> dict[str, Any]:
    """Runs ``python -m export`` in this process, unless its output is there."""
    from common.command_line import CommandError, run_application
    from export.__main__ import COMMANDS

    given = [str(word) for word in words]
    if Path(given[given.index("--output") + 1]).exists():
        return {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = run_application("python -m export", "", COMMANDS, given)
    if status:
        raise CommandError(f"python -m export {given[0]} failed")
    result: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return result
