"""What fine-tuning can configure. The defaults are the paper's for the small size."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from training.finetuning.tasks import TASK_NAMES
from training.run import settings
from training.run.settings import setting, toml_value

FINETUNE = "finetune"


@dataclass(frozen=True)
class TaskSection:
    """Which task."""

    name: str = setting("the task", choices=TASK_NAMES)


@dataclass(frozen=True)
class Location:
    """Where something lies."""

    directory: str = setting("the directory")


@dataclass(frozen=True)
class FinetuneOptimizer:
    """AdamW with linear warm-up and decay, slower towards the bottom layers."""

    learning_rate: float = setting("peak learning rate of the head", 3e-4, minimum=0.0)
    layer_decay: float = setting(
        "factor of the learning rate from a pair of layers to the one below",
        0.8,
        minimum=0.01,
        maximum=1.0,
    )
    warmup_fraction: float = setting(
        "share of the steps for the linear warm-up", 0.1, minimum=0.0, maximum=1.0
    )
    weight_decay: float = setting(
        "decoupled decay, not on LayerNorm and biases", 0.01, minimum=0.0
    )
    clip_norm: float = setting("global norm to clip gradients at", 1.0, minimum=1e-9)


@dataclass(frozen=True)
class FinetuneRun:
    """How long, how often, on what."""

    runs: int = setting("runs with seeds seed, seed + 1, ...", 10, minimum=1)
    seed: int = setting("seed of the first run", 0, minimum=0)
    epochs: int = setting("times through the data; 0: the task's own", 0, minimum=0)
    batch_size: int = setting("examples per step, B", 32, minimum=1)
    sequence_length: int = setting(
        "tokens per example, T; 0: as the model was trained", 0, minimum=0
    )
    dropout: float = setting(
        "dropout rate before the head", 0.1, minimum=0.0, maximum=0.9
    )
    deterministic: str = setting(
        "bit-identical runs: auto is on where there are only CPUs",
        "auto",
        choices=("auto", "on", "off"),
    )
    precision: str = setting(
        "number format of the layers",
        "float32",
        choices=("float32", "mixed_bfloat16"),
    )


@dataclass(frozen=True)
class FinetuneExperiment:
    """A configuration of the command ``finetune``."""

    task: TaskSection
    data: Location
    model: Location
    optimizer: FinetuneOptimizer
    run: FinetuneRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options; those of the contract are short for ``--set``."""
    parser.add_argument(
        "--task", choices=TASK_NAMES, required=True, help="which task; tsv: your own"
    )
    parser.add_argument(
        "--data",
        required=True,
        metavar="DIR",
        help="directory of the task's files; for tsv: train.tsv and dev.tsv with a "
        "header naming text, label and maybe text_pair",
    )
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="model directory of `pretrain`"
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="where to write")
    parser.add_argument("--runs", type=int, help="how many seeds (default: 10)")
    parser.add_argument("--seed", type=int, help="seed of the first run (default: 0)")
    parser.add_argument("--config", type=Path, help="TOML file with more settings")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override one setting, for example run.epochs=5; may be repeated",
    )


def load(arguments: argparse.Namespace) -> FinetuneExperiment:
    """Returns the experiment that the command line asks for.

    Raises:
        UsageError: naming the file, flag or key that is wrong.
    """
    overrides = [
        f"task.name={toml_value(arguments.task)}",
        f"data.directory={toml_value(arguments.data)}",
        f"model.directory={toml_value(arguments.model)}",
        *arguments.set,
    ]
    for name in ("runs", "seed"):
        if getattr(arguments, name) is not None:
            overrides.append(f"run.{name}={getattr(arguments, name)}")
    experiment = settings.load(
        FinetuneExperiment, FINETUNE, arguments.config, overrides
    )
    return replace(
        experiment,
        data=_absolute(experiment.data),
        model=_absolute(experiment.model),
    )


def to_toml(experiment: FinetuneExperiment) -> str:
    """Writes an experiment as TOML that ``--config`` reads back unchanged."""
    return settings.to_toml(experiment, FINETUNE)


def _absolute(location: Location) -> Location:
    return Location(str(Path(location.directory).absolute()))
