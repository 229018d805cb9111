"""What a training experiment can configure: model, data, optimizer and run.

Two kinds exist: `SupernetExperiment` (command ``supernet``) and `PretrainExperiment`
(command ``pretrain``). The defaults are the paper's small size. The library is imported
where values are checked, so that help does not wait for TensorFlow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from training.run import settings
from training.run.flags import Flag
from training.run.options import Data, Optimizer, Run
from training.run.settings import Override, setting

SUPERNET = "supernet"
PRETRAIN = "pretrain"

FLAGS = (
    Flag("--data", "data.directory", path=True, metavar="DIR"),
    Flag("--seed", "run.seed"),
    Flag("--deterministic", "run.deterministic", switch=("on", "off")),
    Flag("--reset-optimizer", "run.reset_optimizer"),
)
"""Short forms of both commands."""

T = TypeVar("T")


@dataclass(frozen=True)
class Encoder:
    """Sizes that the supernet and a pretrained model share."""

    embedding_dim: int = setting("width of the word embeddings, E", 128, minimum=1)
    hidden_dim: int = setting("width of the encoder, H", 256, minimum=1)
    intermediate_dim: int = setting("width inside feed-forward layers", 1024, minimum=1)
    num_heads: int = setting("heads of attention and convolution, N", 4, minimum=1)
    kernel_size: int = setting("taps of a dynamic convolution, odd", 9, minimum=1)
    dropout: float = setting("dropout rate of layer outputs", 0.1, minimum=0.0)
    attention_dropout: float = setting(
        "dropout rate of attention probabilities", 0.1, minimum=0.0
    )
    max_sequence_length: int = setting("rows of the position table", 512, minimum=1)
    mask_convolution: bool = setting(
        "whether convolutions keep off the padding (false: as the official code)", True
    )

    def check(self) -> None:
        """Raises ValueError, naming the key, where sizes do not fit together."""
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"model.hidden_dim must be a multiple of model.num_heads "
                f"({self.num_heads}), found {self.hidden_dim}"
            )
        if self.kernel_size % 2 == 0:
            raise ValueError(f"model.kernel_size must be odd, found {self.kernel_size}")
        for name in ("dropout", "attention_dropout"):
            if getattr(self, name) >= 1.0:
                raise ValueError(
                    f"model.{name} must be below 1, found {getattr(self, name)}"
                )


@dataclass(frozen=True)
class SupernetModel(Encoder):
    """The supernet: every layer type at every position."""

    letters: str = setting("layer types to choose from at each position", "csf")
    num_layers: int = setting("positions, L", 24, minimum=1, maximum=4096)

    def check(self) -> None:
        """Raises ValueError, naming the key, where a value is not allowed."""
        from lvbert_tf.architecture import letters

        super().check()
        unknown = [letter for letter in self.letters if letter not in letters()]
        if not self.letters or unknown or len(set(self.letters)) < len(self.letters):
            raise ValueError(
                "model.letters must hold different layer letters out of "
                f"{''.join(letters())}, found {self.letters!r}"
            )


@dataclass(frozen=True)
class PretrainModel(Encoder):
    """The model to pretrain, and for ELECTRA the size of its generator."""

    architecture: str = setting("layers as an architecture string or name", "lv_bert")
    generator_fraction: float = setting(
        "width of the generator over that of the discriminator (ELECTRA)",
        0.25,
        minimum=0.01,
        maximum=1.0,
    )

    def check(self) -> None:
        """Raises ValueError, naming the key, where a value is not allowed."""
        from lvbert_tf import Architecture

        super().check()
        try:
            Architecture.parse(self.architecture)
        except ValueError as error:
            raise ValueError(f"model.architecture: {error}") from error


@dataclass(frozen=True)
class SupernetOptimizer(Optimizer):
    """The same with the paper's learning rate for the supernet."""

    learning_rate: float = setting("peak learning rate", 2e-4, minimum=0.0)


@dataclass(frozen=True)
class SupernetRun(Run):
    """A run of the supernet."""

    sampling: str = setting(
        "how each step draws its route", "uniform", choices=("uniform", "fair")
    )
    validation_routes: int = setting("fixed random routes to evaluate on", 2, minimum=1)


@dataclass(frozen=True)
class PretrainRun(Run):
    """A run of pretraining."""

    objective: str = setting(
        "electra (replaced token detection) or mlm (masked language modelling)",
        "electra",
        choices=("electra", "mlm"),
    )


@dataclass(frozen=True)
class SupernetExperiment:
    """A configuration of the command ``supernet``."""

    model: SupernetModel
    data: Data
    optimizer: SupernetOptimizer
    run: SupernetRun

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class PretrainExperiment:
    """A configuration of the command ``pretrain``."""

    model: PretrainModel
    data: Data
    optimizer: Optimizer
    run: PretrainRun

    def __post_init__(self) -> None:
        _check(self)


Experiment = SupernetExperiment | PretrainExperiment


def stage_of(experiment: Experiment) -> str:
    """Returns the command that an experiment belongs to."""
    return SUPERNET if isinstance(experiment, SupernetExperiment) else PRETRAIN


def to_toml(experiment: Experiment) -> str:
    """Writes an experiment as TOML that `load` reads back unchanged."""
    return settings.to_toml(experiment, stage_of(experiment))


def load_supernet(
    file: Path | None, overrides: Sequence[str | Override] = ()
) -> SupernetExperiment:
    """Reads a supernet's configuration; see `training.run.settings.load`."""
    experiment = settings.load(SupernetExperiment, SUPERNET, file, overrides)
    return replace(experiment, data=_located(experiment.data))


def load_pretrain(
    file: Path | None, overrides: Sequence[str | Override] = ()
) -> PretrainExperiment:
    """Reads a pretraining configuration; see `training.run.settings.load`."""
    experiment = settings.load(PretrainExperiment, PRETRAIN, file, overrides)
    return replace(experiment, data=_located(experiment.data))


def pretrain_winner(
    supernet: SupernetExperiment, architecture: str
) -> PretrainExperiment:
    """Returns the experiment that pretrains what a search found.

    Sizes, data and the length of the run are the supernet's; the learning rate is the
    paper's for pretraining.

    Args:
        supernet: the configuration of the supernet that was searched.
        architecture: the winner, as an architecture string.

    Returns:
        The experiment; `to_toml` makes the ``winner.toml`` of it.
    """
    shared = {
        field.name: getattr(supernet.model, field.name) for field in fields(Encoder)
    }
    run = {field.name: getattr(supernet.run, field.name) for field in fields(Run)}
    return PretrainExperiment(
        model=PretrainModel(**shared, architecture=architecture),
        data=supernet.data,
        optimizer=Optimizer(
            warmup_steps=supernet.optimizer.warmup_steps,
            weight_decay=supernet.optimizer.weight_decay,
            clip_norm=supernet.optimizer.clip_norm,
        ),
        run=PretrainRun(**run),
    )


def _located(data: Data) -> Data:
    """The same data by an absolute path, so that it is found from any folder."""
    return replace(data, directory=str(Path(data.directory).absolute()))


def _check(experiment: Any) -> None:
    """Raises ValueError where sections contradict each other."""
    experiment.model.check()
    if experiment.data.sequence_length > experiment.model.max_sequence_length:
        raise ValueError(
            "data.sequence_length must not exceed model.max_sequence_length "
            f"({experiment.model.max_sequence_length}), "
            f"found {experiment.data.sequence_length}"
        )
    if experiment.optimizer.warmup_steps > experiment.run.steps:
        raise ValueError(
            f"optimizer.warmup_steps must not exceed run.steps "
            f"({experiment.run.steps}), found {experiment.optimizer.warmup_steps}"
        )
