"""What the labels of a task become for the loss, and outputs for people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import UsageError
from common.labelled_tables.examples import LabelledExample
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.task_data import TaskData, multi_hot
from training.metrics.classification import (
    SIGNIFICANT,
    above_majority_p,
    accuracy,
    confusion,
    f1_of_class,
    is_degenerate,
    majority_share,
    matthews_correlation,
    multi_label_figures,
)
from training.metrics.regression import pearson_p, regression_figures

Array = npt.NDArray[Any]
STS_SCALE = 5.0
"""The official code divides the scores of STS-B by it."""


@dataclass(frozen=True)
class Targets:
    """The labels of a task as numbers.

    Attributes:
        kind: of the task.
        labels: the classes.
        shift: what regression targets are less, and
        scale: what they are divided by, for the loss.
        class_weights: float32 (C,), how much a class counts; None for all alike.
        smoothing: share of a target that is spread over all classes.
    """

    kind: str
    labels: tuple[str, ...]
    shift: float = 0.0
    scale: float = 1.0
    class_weights: Array | None = None
    smoothing: float = 0.0

    @property
    def outputs(self) -> int:
        """Outputs C of the model."""
        return 1 if self.kind == "regression" else len(self.labels)

    def values(
        self, examples: Sequence[LabelledExample], settings: FinetuneExperiment
    ) -> Array:
        """Returns class ids int32 (N,), numbers (N,) or rows float32 (N, C)."""
        if self.kind == "regression":
            return np.array([float(e.label) for e in examples], np.float64)
        index = {label: place for place, label in enumerate(self.labels)}
        if self.kind == "classification":
            return np.array([index[e.label] for e in examples], np.int32)
        rows = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in zip(rows, examples, strict=True):
            row[[index[name] for name in multi_hot(example.label, settings)]] = 1.0
        return rows

    def for_loss(self, values: Array) -> dict[str, Array]:
        """Returns the targets of a batch: `target` float32 (B, C), `weight` (B,)."""
        weight = np.ones(len(values), np.float32)
        if self.kind == "regression":
            scaled = (values - self.shift) / self.scale
            return {"target": scaled[:, None].astype(np.float32), "weight": weight}
        if self.kind == "classification":
            target: Array = np.eye(len(self.labels), dtype=np.float32)[values]
            target = target * (1 - self.smoothing) + self.smoothing / len(self.labels)
            if self.class_weights is not None:
                weight = self.class_weights[values]
        else:
            target = values * (1 - self.smoothing) + self.smoothing / 2
        return {"target": target.astype(np.float32), "weight": weight}

    def losses(self, logits: Any, targets: Any) -> tuple[Any, Any]:
        """Returns loss and hit of every row, float32 (B,), of logits (B, C)."""
        import tensorflow as tf

        logits = tf.cast(logits, tf.float32)
        target, weight = targets["target"], targets["weight"]
        if self.kind == "regression":
            losses = tf.square(logits - target)[:, 0]  # both (B, 1): nothing broadcasts
            return losses * weight, tf.zeros_like(losses)
        if self.kind == "classification":
            losses = tf.nn.softmax_cross_entropy_with_logits(target, logits)
            hits = tf.argmax(logits, axis=-1) == tf.argmax(target, axis=-1)
        else:
            cells = tf.nn.sigmoid_cross_entropy_with_logits(target, logits)
            losses = tf.reduce_mean(cells, axis=-1)
            hits = tf.reduce_all((logits > 0) == (target > 0.5), axis=-1)
        return losses * weight, tf.cast(hits, tf.float32)

    def predicted(self, logits: Array) -> Array:
        """Returns class ids (N,), numbers as the labels are (N,), or bool (N, C)."""
        if self.kind == "regression":
            return logits[:, 0].astype(np.float64) * self.scale + self.shift
        return logits.argmax(axis=-1) if self.kind == "classification" else logits > 0

    def figures(self, logits: Array, values: Array) -> dict[str, Any]:
        """Returns the figures of some outputs against the true values."""
        predicted = self.predicted(logits)
        if self.kind == "regression":
            p = pearson_p(predicted, values)
            return {
                **regression_figures(predicted, values),
                "degenerate": is_degenerate(np.round(predicted, 6)),
                **_above(p),
            }
        if self.kind == "multi_label":
            true = values > 0.5
            rows = ["".join("01"[int(bit)] for bit in row) for row in true]
            guesses = ["".join("01"[int(bit)] for bit in row) for row in predicted]
            return {
                **multi_label_figures(predicted, true),
                "degenerate": is_degenerate(predicted),
                **_above(above_majority_p(guesses, rows)),
            }
        names = [self.labels[index] for index in predicted]
        figures: dict[str, Any] = {
            "accuracy": accuracy(predicted, values),
            "mcc": matthews_correlation(predicted, values),
        }
        if self.labels == ("0", "1"):
            figures["f1"] = f1_of_class(predicted, values, 1)
        return {
            **figures,
            "predicted": dict(Counter(names)),
            "degenerate": is_degenerate(predicted),
            **_above(above_majority_p(predicted, values)),
        }

    def confusion(self, logits: Array, values: Array) -> list[list[int]] | None:
        """Returns the confusion matrix of a classification, or None."""
        if self.kind != "classification":
            return None
        predicted = [int(index) for index in self.predicted(logits)]
        return confusion(predicted, [int(value) for value in values], len(self.labels))


def targets_of(data: TaskData, settings: FinetuneExperiment) -> Targets:
    """Returns how a task's labels become numbers.

    Raises:
        UsageError: for settings that mean nothing for the task.
    """
    kind = data.task.kind
    if settings.run.class_weights != "none" and kind != "classification":
        raise UsageError(
            "run.class_weights: expected none, for it is of classifications, found "
            f"{settings.run.class_weights} for kind {kind}"
        )
    if settings.run.label_smoothing and kind == "regression":
        raise UsageError(
            "run.label_smoothing: expected 0 for a regression, found "
            f"{settings.run.label_smoothing}"
        )
    if kind == "regression":
        if data.task.name == "sts":
            return Targets(kind, (), 0.0, STS_SCALE)
        numbers = np.array([float(example.label) for example in data.train])
        return Targets(kind, (), float(numbers.mean()), float(numbers.std()))
    weights = None
    if settings.run.class_weights == "balanced":
        counts = Counter(example.label for example in data.train)
        shares = [counts[label] / len(data.train) for label in data.labels]
        weights = np.array(
            [1 / (len(shares) * share) if share else 0.0 for share in shares],
            np.float32,
        )
    return Targets(
        kind,
        data.labels,
        class_weights=weights,
        smoothing=settings.run.label_smoothing,
    )


def chance_of(data: TaskData) -> float | None:
    """Returns the share that guessing the majority gets right; None for numbers."""
    if data.task.kind in ("regression", "span"):
        return None
    return majority_share([example.label for example in data.train])


def _above(p: float) -> dict[str, Any]:
    return {"above_majority": p < SIGNIFICANT, "above_majority_p": p}
