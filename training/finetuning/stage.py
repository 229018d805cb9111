"""``finetune``: a pretrained encoder learns a task, over several seeds."""

import multiprocessing
import shutil
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from common.command_line import CommandError, UsageError
from common.files import write_directory, write_text
from training.finetuning import experiment as finetune_experiment
from training.finetuning import pretrained, task_data
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.one_run import RESULT_FILE, finished, place_of, run_seed
from training.finetuning.report import (
    draw_confusion,
    draw_runs,
    table_of_runs,
    told_runs,
)
from training.finetuning.task_data import TaskData
from training.metrics.classification import majority_share
from training.run.directory import RunDirectory
from training.run.figures import draw_curves

_EXTENDABLE = (("run", "runs"), ("run", "keep_models"))


def run(
    settings: FinetuneExperiment, run_dir: Path, processes: int = 1
) -> dict[str, Any]:
    """Fine-tunes with every seed, or goes on with the seeds that are left.

    Args:
        settings: the experiment. A directory of the same experiment with fewer runs is
            extended.
        run_dir: where everything is written; ``model/`` is then the model of the run
            nearest to the median.
        processes: how many seeds are trained at the same time; it changes no value.

    Returns:
        `task`, `metric`, `median`, `mean`, `std` (of the sample; None for one run),
        `n`, `best`, `majority` (what guessing the most frequent class scores),
        `degenerate_runs` and `runs`, one object for each seed.

    Raises:
        UsageError: if data, model or task is not as expected.
        CommandError: if no run succeeded.
    """
    sha256 = pretrained.check(Path(settings.model.directory))
    data = task_data.load(settings)
    identity = {"model_sha256": sha256, **data.identity()}
    config = finetune_experiment.to_toml(settings)
    with RunDirectory.open(
        run_dir, config, identity, extendable=_EXTENDABLE
    ) as directory:
        seeds = range(settings.run.seed, settings.run.seed + settings.run.runs)
        stored = directory.result()
        if stored is not None and [r["seed"] for r in stored["runs"]] == list(seeds):
            return stored
        left = [seed for seed in seeds if finished(run_dir, seed) is None]
        try:
            _train(settings, data, left, run_dir, processes)
        except UsageError:
            _forget(directory, left)
            raise
        runs = [finished(run_dir, seed) or {} for seed in seeds]
        return _conclude(settings, data, runs, directory)


def _train(
    settings: FinetuneExperiment,
    data: TaskData,
    seeds: Sequence[int],
    run_dir: Path,
    processes: int,
) -> None:
    """Trains seeds, each in a process of its own if several are wanted."""
    if processes <= 1 or len(seeds) <= 1:
        for seed in seeds:
            run_seed(settings, data, seed, run_dir)
        return
    # TensorFlow does not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(seeds)), mp_context=context) as pool:
        for work in [
            pool.submit(run_seed, settings, data, seed, run_dir) for seed in seeds
        ]:
            work.result()


def _forget(directory: RunDirectory, seeds: Sequence[int]) -> None:
    """Takes back a run that settings made impossible before its first step."""
    directory.forget()
    for seed in seeds:
        place = place_of(directory.path, seed)
        for empty in (place, place.parent):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


def _conclude(
    settings: FinetuneExperiment,
    data: TaskData,
    runs: Sequence[dict[str, Any]],
    directory: RunDirectory,
) -> dict[str, Any]:
    metric = data.task.metric
    runs = [dict(run) for run in runs]
    directory.truncate(-1)
    for run in runs:
        for point in run.pop("curve", []):
            directory.append_metrics(
                int(point.pop("step")), f"seed-{run['seed']}", point
            )
    done = [run for run in runs if "error" not in run]
    if not done:
        raise CommandError(
            f"none of the {len(runs)} runs succeeded; the last said: "
            f"{runs[-1]['error']}"
        )
    # An undefined correlation is that of constant predictions: no better than chance.
    scores = [0.0 if run[metric] is None else float(run[metric]) for run in done]
    median = statistics.median(scores)
    chosen = min(
        zip(scores, done, strict=True), key=lambda pair: abs(pair[0] - median)
    )[1]
    source = place_of(directory.path, chosen["seed"])
    if not (source / "model").is_dir():
        print(
            f"seed {chosen['seed']}: its model is not there; training it again",
            file=sys.stderr,
        )
        (source / RESULT_FILE).unlink()
        run_seed(settings, data, chosen["seed"], directory.path)
    write_directory(
        directory.model,
        lambda path: shutil.copytree(source / "model", path, dirs_exist_ok=True),
    )
    for name in ("mistakes.tsv", "predictions.json", "null_odds.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, directory.path / name)
    majority = None
    if data.task.kind == "classification":
        majority = majority_share([example.label for example in data.dev])
    draw_curves(
        directory.metrics(),
        f"finetune ({data.task.name})",
        directory.figures / "curves.png",
    )
    draw_runs(
        scores,
        metric,
        f"{data.task.name}: {metric} of {told_runs(len(scores))}",
        majority if metric == "accuracy" else None,
        directory.figures / "runs.png",
    )
    if chosen.get("confusion") is not None:
        draw_confusion(
            chosen["confusion"], data.labels, directory.figures / "confusion.png"
        )
    table = table_of_runs(runs, metric)
    write_text(directory.path / "runs.md", table)
    print(table, file=sys.stderr, end="")
    _warn(done)
    result = directory.write_result(
        {
            "task": data.task.name,
            "kind": data.task.kind,
            "metric": metric,
            "median": median,
            "mean": statistics.fmean(scores),
            "std": statistics.stdev(scores) if len(scores) > 1 else None,
            "n": len(scores),
            "best": max(scores),
            "majority": majority,
            "degenerate_runs": sum(bool(run.get("degenerate")) for run in done),
            "labels": list(data.labels),
            "train_examples": len(data.train),
            "dev_examples": len(data.dev),
            "data": data.counts,
            "runs": list(runs),
            "model": str(directory.model),
            "model_seed": chosen["seed"],
        }
    )
    if not settings.run.keep_models:
        for run_of_seed in runs:
            place = place_of(directory.path, run_of_seed["seed"]) / "model"
            shutil.rmtree(place, ignore_errors=True)
    return result


def _warn(runs: Sequence[dict[str, Any]]) -> None:
    """Warns of runs that cannot be told from guessing."""
    for run in runs:
        seed = run["seed"]
        if run.get("degenerate"):
            print(
                f"warning: seed {seed}: the same is predicted for every example "
                "(degenerate)",
                file=sys.stderr,
            )
        elif run.get("above_majority") is False:
            print(
                f"warning: seed {seed}: not significantly better than guessing (p = "
                f"{run['above_majority_p']:.2g}); other settings may suit the model, "
                "see docs/finetuning.md",
                file=sys.stderr,
            )
