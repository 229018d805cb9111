"""One seed: a new head on the pretrained encoder, trained, measured and stored."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.command_line import CommandError, UsageError
from common.files import write_directory, write_text
from common.model_card import write_directory_card
from training.finetuning import experiment as finetune_experiment
from training.finetuning import pretrained
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.fit import StuckAtChanceError, forget_checkpoints, train
from training.finetuning.learning import learning_of
from training.finetuning.task_data import TaskData
from training.run.devices import set_up

RESULT_FILE = "result.json"
RETRY_FILE = "retry.json"


def place_of(run_dir: Path, seed: int) -> Path:
    """Returns the directory of a seed."""
    return run_dir / "runs" / f"seed-{seed}"


def finished(run_dir: Path, seed: int) -> dict[str, Any] | None:
    """Returns the result of a seed that is finished, or None.

    Raises:
        CommandError: if the file that holds it is damaged.
    """
    file = place_of(run_dir, seed) / RESULT_FILE
    if not file.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise CommandError(
            f"{file}: expected the result of the seed, found no JSON ({error}). "
            "Remove the file to run the seed again"
        ) from None
    return content


def run_seed(
    settings: FinetuneExperiment, data: TaskData, seed: int, run_dir: Path
) -> None:
    """Trains and measures one seed, from where an earlier call stopped.

    Args:
        settings: of the experiment.
        data: the task's examples.
        seed: of the run.
        run_dir: of all seeds; the result is written below it.
    """
    place = place_of(run_dir, seed)
    place.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    result: dict[str, Any] = {"seed": seed}
    set_up(
        deterministic=settings.run.deterministic,
        precision=settings.run.precision,
        seed=seed,
    )
    try:
        result |= _train_and_measure(settings, data, seed, place)
    except UsageError:  # it would be the same for every seed
        raise
    except CommandError as error:  # one seed that diverged says nothing of the others
        print(f"seed {seed}: {error}", file=sys.stderr)
        result["error"] = str(error)
    result["seconds"] = time.perf_counter() - started
    write_text(place / RESULT_FILE, json.dumps(result, indent=2) + "\n")
    forget_checkpoints(place)


def _train_and_measure(
    settings: FinetuneExperiment, data: TaskData, seed: int, place: Path
) -> dict[str, Any]:
    """Writes the model; returns figures, curve and what was lost of the texts."""
    import keras

    retry_file = place / RETRY_FILE
    retried = retry_file.exists()
    while True:
        keras.utils.set_random_seed(seed)
        start = pretrained.load(Path(settings.model.directory))
        problem = _problem(settings, start, data)
        learning = learning_of(settings, data.task, start.backbone)
        if retried:
            learning = replace(learning, learning_rate=learning.learning_rate / 2)
        new = len(problem.model.weights) - len(start.backbone.weights)
        print(
            f"seed {seed}: loaded {start.loaded} of {start.loaded} encoder variables, "
            f"ignored {start.ignored} stored ones, missing {new} (new head); "
            f"learning rate {learning.learning_rate:g}, layer decay "
            f"{learning.layer_decay:g}, {learning.epochs} epochs",
            file=sys.stderr,
        )
        may_retry = settings.optimizer.retry_at_half_rate and not retried
        try:
            state = train(problem, settings, learning, seed, place, may_retry=may_retry)
            break
        except StuckAtChanceError:
            print(
                f"warning: seed {seed}: the first epoch did not leave chance behind; "
                f"once more with half the rate, {learning.learning_rate / 2:g}",
                file=sys.stderr,
            )
            forget_checkpoints(place)
            write_text(retry_file, "{}\n")
            retried = True
    figures = problem.evaluate(f"seed {seed}: dev")
    report = problem.report(seed)
    for name, text in report.pop("files", {}).items():
        write_text(place / name, text)

    def write(path: Path) -> None:
        problem.store(path)
        provenance = {
            "stage": finetune_experiment.FINETUNE,
            "task": data.task.name,
            "kind": data.task.kind,
            "labels": list(data.labels),
            "seed": seed,
            "trained_sequence_length": problem.width,
            "vocabulary_sha256": start.tokenizer.vocabulary_sha256,
            "pretraining": start.provenance,
            **problem.provenance(figures),
        }
        text = json.dumps(provenance, indent=2) + "\n"
        (path / "training.json").write_text(text, encoding="utf-8")
        write_directory_card(path)

    write_directory(place / "model", write)
    if state.best is not None:
        figures["best_epoch"] = state.best[1]
    return {
        **figures,
        **report,
        "learning_rate": learning.learning_rate,
        "layer_decay": learning.layer_decay,
        "epochs": learning.epochs,
        "steps": state.step,
        "retried": retried,
        "texts": problem.summary(),
        "curve": state.curve,
    }


def _problem(
    settings: FinetuneExperiment, start: pretrained.Pretrained, data: TaskData
) -> Any:
    if data.task.kind == "span":
        from training.finetuning.spans import SpanProblem

        return SpanProblem(settings, start, data)
    from training.finetuning.classifier import ClassifierProblem

    return ClassifierProblem(settings, start, data)
