"""The sizes of the quickstart, and the configurations of its stages."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from training.pretraining.experiment import (
    SupernetExperiment,
    SupernetModel,
    SupernetOptimizer,
    SupernetRun,
)
from training.run import settings
from training.run.options import Data
from training.run.settings import setting

QUICKSTART = "quickstart"
DEFAULT_CONFIG = Path(__file__).parent.parent / "configs" / "quickstart.toml"


@dataclass(frozen=True)
class QuickData:
    """The text."""

    vocabulary_size: int = setting("entries of the vocabulary, V", 8000, minimum=100)
    sequence_length: int = setting("tokens per pretraining example, T", 128, minimum=8)
    held_out: float = setting(
        "share of the text for validation and search", 0.02, minimum=0.0, maximum=0.5
    )
    labelled_train: int = setting("labelled texts to fine-tune on", 12_000, minimum=2)
    labelled_held_out: int = setting("labelled texts to measure on", 1000, minimum=2)
    corpus: str = setting(
        "the user's corpus, paths separated by ':'; empty: the public reviews", ""
    )
    labelled: str = setting("the user's labelled TSV, or empty likewise", "")


@dataclass(frozen=True)
class QuickModel:
    """The size of supernet and model."""

    letters: str = setting("layer types to choose from", "csf")
    num_layers: int = setting("layers, L", 8, minimum=1)
    embedding_dim: int = setting("width of the word embeddings, E", 64, minimum=1)
    hidden_dim: int = setting("width of the encoder, H", 64, minimum=1)
    intermediate_dim: int = setting("width inside feed-forward layers", 256, minimum=1)
    num_heads: int = setting("heads, N", 2, minimum=1)
    dropout: float = setting(
        "dropout rate of supernet and pretraining; so short a training sees hardly a "
        "text twice and has nothing to overfit",
        0.0,
        minimum=0.0,
        maximum=0.99,
    )


@dataclass(frozen=True)
class QuickTraining:
    """One training stage, on the reference machine and for the default minutes."""

    steps: int = setting("optimizer steps, before scaling", 400, minimum=1)
    batch_size: int = setting("examples per step, B", 16, minimum=1)
    learning_rate: float = setting("peak learning rate", 5e-4, minimum=0.0)


@dataclass(frozen=True)
class QuickPretraining(QuickTraining):
    """Pretraining of what the search found."""

    objective: str = setting(
        "mlm or electra; some hundred steps of ELECTRA teach less, and left the "
        "classifiers that were tried at chance",
        "mlm",
        choices=("electra", "mlm"),
    )


@dataclass(frozen=True)
class QuickSearch:
    """The search."""

    population: int = setting("architectures of a generation", 12, minimum=2)
    iterations: int = setting("generations", 4, minimum=1)
    crossover: int = setting("children of two parents", 6, minimum=0)
    mutation: int = setting("mutated children", 6, minimum=0)
    top_k: int = setting("parents", 4, minimum=1)
    examples: int = setting("held-out examples to score on", 256, minimum=1)
    top: str = setting(
        "layer types that the top layers are fixed to, for example s; empty: all are "
        "free. The classifier reads the first token, which sees the whole text "
        "through self-attention only",
        "",
    )


@dataclass(frozen=True)
class QuickFinetune:
    """Fine-tuning."""

    epochs: int = setting("times through the labelled texts", 1, minimum=1)
    batch_size: int = setting("examples per step, B", 32, minimum=1)
    sequence_length: int = setting("tokens per text, T", 128, minimum=8)
    learning_rate: float = setting("peak learning rate of the head", 3e-4, minimum=0.0)
    warmup_fraction: float = setting(
        "share of the steps for the linear warm-up",
        0.1,
        minimum=0.0,
        maximum=1.0,
    )
    layer_decay: float = setting(
        "factor of the learning rate from a pair of layers to the one below; after so "
        "short a pretraining the bottom layers have as much to learn as the top",
        1.0,
        minimum=0.01,
        maximum=1.0,
    )
    dropout: float = setting(
        "dropout rate; a tiny model underfits", 0.0, minimum=0.0, maximum=0.9
    )
    runs: int = setting("seeds", 1, minimum=1)


@dataclass(frozen=True)
class QuickRun:
    """Seed, and how sizes scale."""

    seed: int = setting("decides everything random", 0, minimum=0)
    minutes: float = setting("what the stages together may take", 6.5, minimum=0.01)
    default_minutes: float = setting(
        "the minutes that the steps above are for", 6.5, minimum=0.01
    )
    reference_gflops: float = setting(
        "float32 matmul rate of the machine that the steps are for", 100.0, minimum=0.1
    )
    gflops: float = setting("of this machine; 0: measure it", 0.0, minimum=0.0)


@dataclass(frozen=True)
class QuickstartExperiment:
    """A configuration of the command ``quickstart``."""

    data: QuickData
    model: QuickModel
    supernet: QuickTraining
    search: QuickSearch
    pretrain: QuickPretraining
    finetune: QuickFinetune
    run: QuickRun

    @property
    def scale(self) -> float:
        """How many times the configured steps fit; a fast machine just ends sooner."""
        speed = min(1.0, self.run.gflops / self.run.reference_gflops)
        return speed * self.run.minutes / self.run.default_minutes

    def scaled(self, count: int, least: int = 1) -> int:
        """Returns a number of steps or examples as it fits this machine and time."""
        return max(least, round(count * self.scale))


def load(
    config: Path | None, overrides: list[str], gflops: float
) -> QuickstartExperiment:
    """Reads the quickstart's configuration.

    Args:
        config: a TOML file, by default the one in ``training/configs``.
        overrides: ``section.key=value``.
        gflops: matmul rate of this machine, where no override gives it.
    """
    return settings.load(
        QuickstartExperiment,
        QUICKSTART,
        config or DEFAULT_CONFIG,
        [f"run.gflops={gflops!r}", *overrides],
    )


def to_toml(quickstart: QuickstartExperiment) -> str:
    """Writes the configuration as TOML that ``--config`` reads back unchanged."""
    return settings.to_toml(quickstart, QUICKSTART)


def supernet_of(quickstart: QuickstartExperiment, data: Path) -> SupernetExperiment:
    """Returns the supernet's experiment.

    Args:
        quickstart: the sizes.
        data: the data directory.

    Raises:
        UsageError: if the sizes do not fit together.
    """
    steps = quickstart.scaled(quickstart.supernet.steps, least=20)
    sizes = {
        field.name: getattr(quickstart.model, field.name)
        for field in fields(QuickModel)
    }
    try:
        return SupernetExperiment(
            model=SupernetModel(
                **sizes,
                attention_dropout=quickstart.model.dropout,
                max_sequence_length=max(
                    quickstart.data.sequence_length,
                    quickstart.finetune.sequence_length,
                ),
            ),
            data=Data(
                directory=str(data),
                sequence_length=quickstart.data.sequence_length,
                validation_examples=512,
            ),
            optimizer=SupernetOptimizer(
                learning_rate=quickstart.supernet.learning_rate,
                warmup_steps=steps // 10,
            ),
            run=SupernetRun(
                steps=steps,
                batch_size=quickstart.supernet.batch_size,
                seed=quickstart.run.seed,
                **intervals(steps),
            ),
        )
    except ValueError as error:
        raise UsageError(f"quickstart: {error}") from error


def pretrain_overrides(quickstart: QuickstartExperiment) -> list[str]:
    """Returns what the quickstart changes in the search's ``winner.toml``."""
    steps = quickstart.scaled(quickstart.pretrain.steps, least=20)
    changed = {
        "run.objective": quickstart.pretrain.objective,
        "run.steps": steps,
        "run.batch_size": quickstart.pretrain.batch_size,
        **{f"run.{name}": value for name, value in intervals(steps).items()},
        "optimizer.learning_rate": quickstart.pretrain.learning_rate,
        "optimizer.warmup_steps": steps // 10,
    }
    return [f"{name}={settings.toml_value(value)}" for name, value in changed.items()]


def intervals(steps: int) -> dict[str, Any]:
    """Returns when a short run logs, evaluates and saves."""
    return {
        "log_every": max(1, steps // 40),
        "evaluate_every": max(1, steps // 4),
        # Often: killed anywhere, the quickstart loses some seconds at most.
        "checkpoint_every": max(1, steps // 20),
    }
