"""``quickstart``: the whole journey at a tiny size, from raw text to served answers.

Every stage is the command that a user would call, in a process of its own: TensorFlow
starts clean, memory is given back, and a kill in any stage is what it is for a user.
That costs each stage some seconds of imports. A finished stage is not run again; an
interrupted one goes on where its own command goes on.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common.files import write_text
from training.quickstart import experiment as quickstart_experiment
from training.quickstart.experiment import QuickstartExperiment
from training.quickstart.stages import STAGES
from training.quickstart.summary import print_summary, summarize
from training.run.directory import RunDirectory

_STAGE_FILE = "stage.json"


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
    config = quickstart_experiment.to_toml(quickstart)
    with RunDirectory.open(run_dir, config, {}) as directory:
        finished = directory.result()
        if finished is None:
            results: dict[str, Any] = {}
            for turn, (name, stage) in enumerate(STAGES.items(), start=1):
                title = f"{turn}/{len(STAGES)} {name}"
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
