"""What the training stages share: devices, compilation, presets, the last word."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from common.files import write_directory
from common.model_card import write_directory_card
from lvbert_tf.optimization import AdamW, WarmupLinearDecay
from training.data.verification import start_verification
from training.loop.batches import data_identity
from training.loop.train import Outcome
from training.pretraining import experiment
from training.pretraining.experiment import (
    Experiment,
    PretrainExperiment,
    SupernetExperiment,
)
from training.run.directory import RunDirectory
from training.run.figures import draw_curves
from training.run.opening import open_run
from training.run.options import Optimizer, Run

ExperimentT = TypeVar("ExperimentT", SupernetExperiment, PretrainExperiment)


def compile_model(model: Any, optimizer: Optimizer, run: Run) -> None:
    """Gives a model its optimizer, with all its variables, and its seed."""
    model.compile(
        optimizer=AdamW(
            learning_rate=WarmupLinearDecay(
                optimizer.learning_rate, run.steps, optimizer.warmup_steps
            ),
            weight_decay=optimizer.weight_decay,
            clip_norm=optimizer.clip_norm,
        ),
        jit_compile=False,
    )
    model.optimizer.build(model.trainable_variables)
    model.run_seed = run.seed


def run_once(
    settings: ExperimentT,
    run_dir: Path,
    train: Callable[[ExperimentT, RunDirectory], dict[str, Any]],
) -> dict[str, Any]:
    """Trains in the run's directory, or returns the result of an earlier call.

    Args:
        settings: the experiment.
        run_dir: the directory.
        train: trains from the last checkpoint on; returns the result.
    """
    identity = data_identity(settings.data)
    config = experiment.to_toml(settings)
    with open_run(run_dir, config, identity, settings.run) as directory:
        finished = directory.result()
        if finished is not None:
            return finished
        # Beside what follows; the batches wait for the result.
        start_verification(settings.data.directory, "train")
        return train(settings, directory)


def write_preset(
    model: Any,
    tokenizer: Any,
    settings: Experiment,
    target: Path,
    parts: Mapping[str, Any] | None = None,
) -> None:
    """Writes a model with its tokenizer as a preset directory, all or nothing.

    Args:
        model: a KerasHub backbone or task.
        tokenizer: its tokenizer.
        settings: what trained it; ``training.json`` tells.
        target: the directory; an older one is replaced.
        parts: models that were trained with it, by the name of the folder, within
            `target`, that each becomes a preset directory in.
    """

    def write(path: Path) -> None:
        for name, part in (parts or {}).items():
            (path / name).mkdir()
            write_one(part, path / name)
        write_one(model, path)

    def write_one(model: Any, path: Path) -> None:
        model.save_to_preset(str(path))
        tokenizer.save_to_preset(str(path))
        write_provenance(path, settings, tokenizer.vocabulary_sha256)

    write_directory(target, write)


def write_provenance(path: Path, settings: Experiment, vocabulary_sha256: str) -> None:
    """Writes ``training.json``, what trained the model there, and its model card."""
    options = dataclasses.asdict(settings)
    # Where the data lay on the machine that trained says nothing elsewhere.
    del options["data"]["directory"]
    provenance = {
        "stage": experiment.stage_of(settings),
        "objective": getattr(settings.run, "objective", "mlm"),
        "trained_sequence_length": settings.data.sequence_length,
        "vocabulary_sha256": vocabulary_sha256,
        "settings": options,
    }
    text = json.dumps(provenance, indent=2) + "\n"
    (path / "training.json").write_text(text, encoding="utf-8")
    write_directory_card(path)


def finish(
    directory: RunDirectory,
    title: str,
    outcome: "Outcome",
    figures: Mapping[str, Any],
    settings: Experiment,
) -> dict[str, Any]:
    """Draws the curves and writes the result, which marks the run as finished."""
    draw_curves(directory.metrics(), title, directory.figures / "curves.png")
    rate = outcome.examples_per_second
    tokens = None if rate is None else rate * settings.data.sequence_length
    return directory.write_result(
        {
            "steps": outcome.steps,
            **figures,
            "train_loss": outcome.train.get("loss"),
            "best_loss": outcome.best_loss,
            "examples_per_second": rate,
            "tokens_per_second": tokens,
            "run_dir": str(directory.path),
            "model": str(directory.model),
        }
    )
