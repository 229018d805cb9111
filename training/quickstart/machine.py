"""How fast this machine is, by which the quickstart sizes its stages."""

import statistics
import time
from pathlib import Path

import numpy as np

from common.command_line import CommandError
from training.run import settings


def machine_gflops(run_dir: Path) -> float:
    """Returns the matmul rate that sizes the stages: measured once for a directory."""
    config = run_dir / "config.toml"
    if config.exists():
        rate = settings.read_tables(config).get("run", {}).get("gflops")
        if not isinstance(rate, float):
            raise CommandError(
                f"{config}: expected the configuration of a quickstart, found no "
                "number run.gflops"
            )
        return rate
    return measure_gflops()


def measure_gflops(seconds: float = 1.0) -> float:
    """Returns the float32 matmul rate of this machine in GFLOP/s.

    The median of repeated products of the shapes that a tiny model has: a stray load
    moves it little.

    Args:
        seconds: how long to measure.
    """
    left = np.ones((2048, 128), np.float32)
    right = np.ones((128, 512), np.float32)
    left @ right  # the first product starts the threads
    rates = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        for _ in range(10):
            left @ right
        rates.append(10 * 2 * 2048 * 128 * 512 / (time.perf_counter() - started) / 1e9)
    return round(statistics.median(rates), 1)
