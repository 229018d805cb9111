"""How the benchmarks measure: interleaved repetitions, medians and their spread."""

import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("tensorflow", "keras", "keras-hub", "tensorflow-text", "numpy")


def machine() -> dict[str, Any]:
    """Returns hardware and versions, which every result carries."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def milliseconds(
    cases: Mapping[str, Callable[[], Any]],
    repetitions: int = 15,
    warmups: int = 3,
    settling: int = 0,
) -> dict[str, dict[str, float]]:
    """Times all cases in turn, so that a disturbance meets them alike.

    Args:
        cases: name to a function that does the work and waits for it.
        repetitions: timed calls of each.
        warmups: calls before, not timed (tracing, allocation).
        settling: calls of each turn before the timed one, not timed: threads of the
            runtime whose turn it was go on looking for work for a while, and caches
            hold its weights.

    Returns:
        For each name `median`, `fastest` and `spread`, the distance between the
        quartiles, all in milliseconds a call.
    """
    for case in cases.values():
        for _ in range(warmups):
            case()
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repetitions):
        for name, case in cases.items():
            for _ in range(settling):
                case()
            start = time.perf_counter()
            case()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: _summary(values) for name, values in times.items()}


def _summary(values: list[float]) -> dict[str, float]:
    quartiles = statistics.quantiles(values, n=4)
    return {
        "median": statistics.median(values),
        "fastest": min(values),
        "spread": quartiles[2] - quartiles[0],
    }


def paired_ratio(
    times: Mapping[str, Mapping[str, float]], part: str, whole: str
) -> float:
    """Returns the ratio of two medians measured in turn."""
    return times[part]["median"] / times[whole]["median"]


def printed_in_new_process(code: str) -> list[str]:
    """Returns the lines that Python code prints in a process of its own."""
    output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    return output.stdout.splitlines()
