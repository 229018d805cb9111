"""Fine-tuning: examples a second with buckets and dynamic padding, and without.

Beside it runs a plain PyTorch loop over `transformers`' ELECTRA-small, if the
environment variable LVBERT_TORCH_PYTHON names a Python that has both packages.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import REPOSITORY

BATCH, WINDOW = 32, 128
STEPS = 10
SHARED = Path(os.environ.get("LVBERT_SHARED", REPOSITORY.parent / "shared"))


def run() -> dict[str, Any]:
    """Measures LV-BERT-small on SST-2 and CoLA, a step of each kind in turn.

    Returns:
        For each task `dynamic` and `padded` (examples a second, first steps, which
        trace, left out), their `ratio`, `mean_tokens`, and `torch` where it is there.
    """
    if not (SHARED / "data" / "glue").is_dir():
        return {"skipped": f"no GLUE files in {SHARED / 'data' / 'glue'}"}
    return {task: _task(task) for task in ("sst", "cola")}


def _task(task: str) -> dict[str, Any]:
    from lvbert_tf import LVBertBackbone, LVBertTokenizer
    from training.finetuning import experiment, pretrained, task_data
    from training.finetuning.classifier import ClassifierProblem
    from training.finetuning.encoding import epoch_batches, rounded
    from training.finetuning.fit import optimizer_of, step_function_of
    from training.finetuning.learning import learning_of

    with tempfile.TemporaryDirectory() as folder:
        vocabulary = SHARED / "data" / "vocab.bert-uncased.txt"
        LVBertBackbone.from_size("small").save_to_preset(folder)
        LVBertTokenizer(str(vocabulary)).save_to_preset(folder)
        settings = experiment.load(
            None,
            [
                f"task.name={task}",
                f"data.directory={SHARED / 'data' / 'glue'}",
                f"model.directory={folder}",
                f"run.sequence_length={WINDOW}",
            ],
        )
        start = pretrained.load(Path(folder))
        data = task_data.load(settings)
        problem = ClassifierProblem(settings, start, data)
    learning = learning_of(settings, data.task, start.backbone)
    steps = math.ceil(len(problem.lengths) / BATCH)
    optimizer = optimizer_of(problem, settings, learning, steps)
    step = step_function_of(problem, optimizer, settings, 0)
    bucketed = epoch_batches(problem.lengths, BATCH, 0, 0, True)[:STEPS]
    plain = epoch_batches(problem.lengths, BATCH, 0, 0, False)[:STEPS]
    seconds: dict[str, list[float]] = {"dynamic": [], "padded": []}
    began = time.perf_counter()
    step(*problem.batch(bucketed[0], WINDOW), np.int32(0))[0].numpy()
    first = time.perf_counter() - began
    for index, (short, full) in enumerate(zip(bucketed, plain, strict=True)):
        longest = int(problem.lengths[short].max())
        for name, rows, width in (
            ("dynamic", short, rounded(longest, WINDOW)),
            ("padded", full, WINDOW),
        ):
            began = time.perf_counter()
            step(*problem.batch(rows, width), np.int32(index))[0].numpy()
            seconds[name].append(time.perf_counter() - began)
    rates = {name: BATCH / float(np.mean(taken)) for name, taken in seconds.items()}
    figures = {
        **rates,
        "ratio": rates["dynamic"] / rates["padded"],
        "first_step_seconds": first,
        "mean_tokens": float(problem.lengths.mean()),
    }
    return {**figures, **_torch(task, data.train, rates["dynamic"])}


def _torch(task: str, train: Any, ours: float) -> dict[str, Any]:
    python = os.environ.get("LVBERT_TORCH_PYTHON")
    if not python:
        return {"torch": "LVBERT_TORCH_PYTHON is not set"}
    rows = [[*example.texts, int(example.label)] for example in train[: STEPS * BATCH]]
    done = subprocess.run(
        [python, str(Path(__file__).with_name("finetuning_torch.py"))],
        input=json.dumps(
            {
                "rows": rows,
                "vocabulary": str(SHARED / "data" / "vocab.bert-uncased.txt"),
                "batch": BATCH,
                "window": WINDOW,
            }
        ),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    theirs = float(json.loads(done.stdout.splitlines()[-1])["examples_per_second"])
    return {"torch": theirs, "ratio_to_torch": ours / theirs}


if __name__ == "__main__":
    print(json.dumps(run(), indent=2), file=sys.stdout)
