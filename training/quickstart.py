"""``quickstart``: the whole journey at a tiny size, from raw text to served answers.

Every stage is the command that a user would call, in a process of its own: TensorFlow
starts clean, memory is given back, and a kill in any stage is what it is for a user.
That costs each stage some seconds of imports. A finished stage is not run again; an
interrupted one goes on where its own command goes on.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from command_line import CommandError, UsageError
from training import quickstart_experiment, settings
from training.quickstart_experiment import QuickstartExperiment
from training.run_directory import RunDirectory, write_text

_STAGE_FILE = "stage.json"


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


def run(quickstart: QuickstartExperiment, run_dir: Path) -> dict[str, Any]:
    """Takes the journey, or goes on with it.

    Args:
        quickstart: the sizes.
        run_dir: where everything is written, each stage in a folder of its own.

    Returns:
        `stages` (each stage's figures and seconds), `accuracy`, `majority`,
        `answers`, `pictures`, `seconds`, and `passed`: whether the classifier beats
        the majority class by 10 points on held-out texts.
    """
    from training.quickstart_stages import STAGES
    from training.quickstart_summary import print_summary, summarize

    config = quickstart_experiment.to_toml(quickstart)
    with RunDirectory.open(run_dir, config, {}) as directory:
        finished = directory.result()
        if finished is None:
            results: dict[str, Any] = {}
            for number, (name, stage) in enumerate(STAGES.items(), start=1):
                title = f"{number}/{len(STAGES)} {name}"
                results[name] = _run_stage(title, stage, quickstart, run_dir / name)
            finished = directory.write_result(summarize(results, run_dir))
    print_summary(finished, sys.stderr)
    return finished


def _run_stage(
    title: str,
    stage: Callable[[QuickstartExperiment, Path], Mapping[str, Any]],
    quickstart: QuickstartExperiment,
    folder: Path,
) -> dict[str, Any]:
    """Runs a stage unless it is finished; returns its result with `seconds`."""
    file = folder / _STAGE_FILE
    if file.exists():
        print(f"[{title}] finished before", file=sys.stderr)
        stored: dict[str, Any] = json.loads(file.read_text("utf-8"))
        return stored
    print(f"[{title}]", file=sys.stderr, flush=True)
    folder.mkdir(exist_ok=True)
    started = time.monotonic()
    result = dict(stage(quickstart, folder))
    result["seconds"] = round(time.monotonic() - started, 1)
    write_text(file, json.dumps(result, indent=2) + "\n")
    print(f"[{title}] {result['seconds']} s", file=sys.stderr, flush=True)
    return result


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
