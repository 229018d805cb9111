"""``finetune``: a pretrained encoder becomes a classifier, over several seeds."""

import hashlib
import json
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from common.command_line import CommandError
from common.files import write_directory, write_text
from common.model_card import write_directory_card
from training.finetuning import experiment as finetune_experiment
from training.finetuning import pretrained, tasks
from training.finetuning.classifier_data import batches, class_indices
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.fit import build_classifier, fit, for_storage
from training.finetuning.tasks import Example, Task
from training.metrics.classification import accuracy, is_degenerate, majority_share
from training.run.devices import set_up
from training.run.directory import RunDirectory
from training.run.figures import draw_curves
from training.run.progress import Progress


def run(settings: FinetuneExperiment, run_dir: Path) -> dict[str, Any]:
    """Fine-tunes with every seed, or goes on with the seeds that are left.

    Args:
        settings: the experiment.
        run_dir: where everything is written; ``model/`` is then the classifier of the
            run nearest to the median.

    Returns:
        `task`, `metric`, `median`, `mean`, `std` (of the sample; None for one run),
        `n`, `best`, `majority` (what guessing the most frequent class scores) and
        `runs`, one object for each seed.

    Raises:
        UsageError: if data, model or task is not as expected.
        CommandError: if no run succeeded.
    """
    task = tasks.find(settings.task.name)
    data_dir, model_dir = Path(settings.data.directory), Path(settings.model.directory)
    train, dev = task.read_train(data_dir), task.read_dev(data_dir)
    labels = tasks.label_names(train, dev)
    identity = {
        "model_sha256": pretrained.check(model_dir),
        "train_sha256": _digest(train),
        "dev_sha256": _digest(dev),
    }
    config = finetune_experiment.to_toml(settings)
    with RunDirectory.open(run_dir, config, identity) as directory:
        finished = directory.result()
        if finished is not None:
            return finished
        set_up(
            deterministic=settings.run.deterministic,
            precision=settings.run.precision,
            seed=settings.run.seed,
        )
        seeds = range(settings.run.seed, settings.run.seed + settings.run.runs)
        runs = [
            _one_run(settings, task, train, dev, labels, directory, seed)
            for seed in seeds
        ]
        return _conclude(task, runs, dev, labels, directory)


def _one_run(
    settings: FinetuneExperiment,
    task: Task,
    train: Sequence[Example],
    dev: Sequence[Example],
    labels: Sequence[str],
    directory: RunDirectory,
    seed: int,
) -> dict[str, Any]:
    """Trains and measures one seed, unless an earlier call did."""
    place = directory.path / "runs" / f"seed-{seed}"
    result_file = place / "result.json"
    if result_file.exists():
        stored: dict[str, Any] = json.loads(result_file.read_text("utf-8"))
        return stored
    place.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    result: dict[str, Any] = {"seed": seed}
    try:
        predicted, result["curve"] = _train_and_predict(
            settings, task, train, dev, labels, seed, place / "model"
        )
    except CommandError as error:  # one seed that diverged says nothing of the others
        print(f"seed {seed}: {error}", file=sys.stderr)
        result["error"] = str(error)
    else:
        result.update(_measure(task, predicted, dev, labels))
    result["seconds"] = time.perf_counter() - started
    write_text(result_file, json.dumps(result, indent=2) + "\n")
    return result


def _train_and_predict(
    settings: FinetuneExperiment,
    task: Task,
    train: Sequence[Example],
    dev: Sequence[Example],
    labels: Sequence[str],
    seed: int,
    model_dir: Path,
) -> tuple[list[int], list[dict[str, float]]]:
    """Writes the classifier; returns the class index of each dev example, the curve."""
    keras.utils.set_random_seed(seed)
    start = pretrained.load(Path(settings.model.directory))
    classifier = build_classifier(settings, start, labels)
    new = len(classifier.weights) - len(start.backbone.weights)
    print(
        f"seed {seed}: loaded {start.loaded} of {start.loaded} encoder variables, "
        f"ignored {start.ignored} stored ones, missing {new} (new head)",
        file=sys.stderr,
    )
    curve = fit(classifier, settings, task, train, class_indices(train, labels), seed)
    with Progress(len(dev), "examples", f"seed {seed}: dev") as progress:
        predicted: list[int] = []
        for batch in batches(dev, settings.run.batch_size):
            logits = classifier.predict_on_batch(batch)
            predicted += [int(index) for index in logits.argmax(axis=-1)]
            progress.update(len(logits))

    def write(path: Path) -> None:
        for_storage(classifier).save_to_preset(str(path))
        provenance = {
            "stage": finetune_experiment.FINETUNE,
            "task": task.name,
            "labels": list(labels),
            "pairs": len(train[0].texts) == 2,
            "seed": seed,
            "trained_sequence_length": classifier.preprocessor.sequence_length,
            "vocabulary_sha256": start.tokenizer.vocabulary_sha256,
            "pretraining": start.provenance,
        }
        text = json.dumps(provenance, indent=2) + "\n"
        (path / "training.json").write_text(text, encoding="utf-8")
        write_directory_card(path)

    write_directory(model_dir, write)
    return predicted, curve


def _measure(
    task: Task,
    predicted: Sequence[int],
    dev: Sequence[Example],
    labels: Sequence[str],
) -> dict[str, Any]:
    names = [labels[index] for index in predicted]
    return {
        task.metric: accuracy(names, [example.label for example in dev]),
        "predicted": dict(Counter(names)),
        "degenerate": is_degenerate(predicted),
    }


def _conclude(
    task: Task,
    runs: Sequence[dict[str, Any]],
    dev: Sequence[Example],
    labels: Sequence[str],
    directory: RunDirectory,
) -> dict[str, Any]:
    runs = [dict(run) for run in runs]
    directory.truncate(0)
    for one in runs:
        for point in one.pop("curve", []):
            directory.append_metrics(
                int(point.pop("step")), f"seed-{one['seed']}", point
            )
    scored = [run for run in runs if task.metric in run]
    if not scored:
        raise CommandError(
            f"none of the {len(runs)} runs succeeded; the last said: "
            f"{runs[-1]['error']}"
        )
    scores = [run[task.metric] for run in scored]
    median = statistics.median(scores)
    chosen = min(scored, key=lambda run: abs(run[task.metric] - median))
    places = directory.path / "runs"
    source = places / f"seed-{chosen['seed']}" / "model"
    write_directory(
        directory.model,
        lambda path: shutil.copytree(source, path, dirs_exist_ok=True),
    )
    draw_curves(
        directory.metrics(), f"finetune ({task.name})", directory.figures / "curves.png"
    )
    result = directory.write_result(
        {
            "task": task.name,
            "metric": task.metric,
            "median": median,
            "mean": statistics.fmean(scores),
            "std": statistics.stdev(scores) if len(scores) > 1 else None,
            "n": len(scores),
            "best": max(scores),
            "majority": majority_share([example.label for example in dev]),
            "labels": list(labels),
            "dev_examples": len(dev),
            "runs": list(runs),
            "model": str(directory.model),
            "model_seed": chosen["seed"],
        }
    )
    for place in places.iterdir():  # the weights of the other seeds: no more needed
        shutil.rmtree(place / "model", ignore_errors=True)
    return result


def _digest(examples: Sequence[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        line = "\t".join((*example.texts, example.label))
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
