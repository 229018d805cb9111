"""The command ``quickstart``: its arguments."""

import argparse
import time
from pathlib import Path
from typing import Any

from command_line import CommandError, UsageError
from training.quickstart import experiment as quickstart_experiment
from training.run import settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("runs") / "quickstart",
        help="where everything is written (default: runs/quickstart); run again with "
        "the same to go on",
    )
    parser.add_argument(
        "--minutes", type=float, help="what the stages may take together (default: 6.5)"
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        metavar="PATH",
        help="text to pretrain on instead of the public reviews",
    )
    parser.add_argument(
        "--labelled",
        metavar="FILE.tsv",
        help="labelled texts (columns text, label) instead of the public reviews",
    )
    parser.add_argument("--seed", type=int, help="decides everything random")
    parser.add_argument(
        "--config", type=Path, help="sizes (default: training/configs/quickstart.toml)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override one setting of the file; may be repeated",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.quickstart.stage import run

    overrides = list(arguments.set)
    for name, value in (
        ("run.minutes", arguments.minutes),
        ("run.seed", arguments.seed),
        ("data.corpus", _joined(arguments.corpus)),
        ("data.labelled", arguments.labelled and _joined([arguments.labelled])),
    ):
        if value is not None:
            overrides.append(f"{name}={settings.toml_value(value)}")
    return run(
        quickstart_experiment.load(
            arguments.config, overrides, _gflops(arguments.run_dir)
        ),
        arguments.run_dir,
    )


def _joined(paths: list[str] | None) -> str | None:
    """Returns absolute paths in one string, so that every stage finds them.

    Raises:
        UsageError: if one does not exist.
    """
    if paths is None:
        return None
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"{path}: expected a file or folder, found nothing")
    return ":".join(str(Path(path).absolute()) for path in paths)


def _gflops(run_dir: Path) -> float:
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
    import statistics

    import numpy as np

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
