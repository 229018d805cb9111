"""Optimizer settings that suit task and model, where the user gives none."""

from dataclasses import dataclass
from typing import Any

from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.tasks import Task

_PAPERS_LAYERS = 24
_PAPERS_WIDTH = 256


@dataclass(frozen=True)
class Learning:
    """What a run learns with.

    Attributes:
        learning_rate: peak rate of the head.
        layer_decay: factor from a pair of layers to the one below.
        epochs: times through the data.
    """

    learning_rate: float
    layer_decay: float
    epochs: int


def learning_of(settings: FinetuneExperiment, task: Task, backbone: Any) -> Learning:
    """Returns what the settings say, or else what suits task and model.

    The paper's values (Table 6) belong to 24 layers of width 256 and more, pretrained
    for long. In a shallow model its layer decay leaves the bottom layers, which have
    as much to learn as the top after a short pretraining, nearly frozen.

    Args:
        settings: of the experiment.
        task: what is learnt.
        backbone: the encoder.
    """
    wide = backbone.hidden_dim >= 768
    rate = 3e-4
    if wide:
        rate = 2e-4 if task.kind == "span" else 1e-4
    papers = (
        len(backbone.architecture) >= _PAPERS_LAYERS
        and backbone.hidden_dim >= _PAPERS_WIDTH
    )
    return Learning(
        settings.optimizer.learning_rate or rate,
        settings.optimizer.layer_decay or (0.8 if papers else 1.0),
        settings.run.epochs or task.epochs,
    )
