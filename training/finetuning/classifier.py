"""Classifiers, regressions and multi-label models as problems to train."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from common.command_line import UsageError
from common.labelled_tables.examples import LabelledExample
from lvbert_tf import LVBertTextClassifier, LVBertTextClassifierPreprocessor
from training.finetuning.encoding import Encoded, encode, rounded, warn_of_losses
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.pretrained import Pretrained
from training.finetuning.report import mistakes
from training.finetuning.targets import Array, chance_of, targets_of
from training.finetuning.task_data import TaskData
from training.run.progress import Progress


class ClassifierProblem:
    """A classifier on a pretrained encoder, with its examples; see `Problem`.

    Args:
        settings: of the experiment.
        start: the pretrained model.
        data: the task's examples.
    """

    def __init__(
        self, settings: FinetuneExperiment, start: Pretrained, data: TaskData
    ) -> None:
        self._settings = settings
        self.data = data
        self.metric = data.task.metric
        self.chance = chance_of(data)
        self.counts_hits = data.task.kind != "regression"
        self.targets = targets_of(data, settings)
        self.width = window_of(settings, start)
        self.model = _build(settings, start, data, self.targets.outputs, self.width)
        warn_of_untrained_positions(start, self.width)
        self.pads_freely = pads_freely(start.backbone)
        tokenizer = start.tokenizer
        train = _both_orders(settings, data)
        self.train = encode(tokenizer, [e.texts for e in train], self.width)
        self._values = self.targets.values(train, settings)
        self.dev = {"dev": data.dev, **data.more_dev}
        self.encoded_dev = {
            name: encode(tokenizer, [e.texts for e in part], self.width)
            for name, part in self.dev.items()
        }
        self.lengths = self.train.lengths
        for name, part in (("train", self.train), *self.encoded_dev.items()):
            for remark in warn_of_losses(name, part, self.width):
                print(f"warning: {remark}", file=sys.stderr)
        self._scores = self._score_function()

    def batch(self, rows: Sequence[int] | Any, width: int) -> tuple[Any, Any]:
        """Returns inputs and targets of training rows."""
        width = width if self.pads_freely else self.width
        inputs = self.train.batch(rows, width)
        return inputs, self.targets.for_loss(self._values[rows])

    def losses(self, inputs: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Returns loss and hit of every row, float32 (B,)."""
        return self.targets.losses(self.model(inputs, training=training), targets)

    def evaluate(self, label: str) -> dict[str, Any]:
        """Returns the figures on dev, and those of further parts under their names."""
        figures: dict[str, Any] = {}
        for name in self.dev:
            figures_of_part = self.targets.figures(
                self.logits(name, label), self.values(name)
            )
            figures |= figures_of_part if name == "dev" else {name: figures_of_part}
        return figures

    def values(self, part: str) -> Array:
        """Returns the true values of a part to measure on."""
        return self.targets.values(self.dev[part], self._settings)

    def logits(self, part: str, label: str) -> Array:
        """Returns the outputs for a part to measure on, float32 (N, C)."""
        encoded = self.encoded_dev[part]
        return predict(self._scores, encoded, self, label)

    def store(self, path: Path) -> None:
        """Writes the model as a preset directory that answers in the labels' terms."""
        self._for_storage().save_to_preset(str(path))

    def report(self, seed: int) -> dict[str, Any]:
        """Returns what a run tells besides its figures; `files` are written."""
        logits = self.logits("dev", f"seed {seed}: mistakes")
        values = self.values("dev")
        texts = [example.texts for example in self.data.dev]
        return {
            "confusion": self.targets.confusion(logits, values),
            "files": {"mistakes.tsv": mistakes(self.targets, logits, values, texts)},
        }

    def provenance(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Returns what the stored model says of itself."""
        return {"pairs": len(self.data.train[0].texts) == 2}

    def summary(self) -> dict[str, Any]:
        """Returns what the result says of the texts."""
        return {
            "train": self.train.losses(),
            **{name: part.losses() for name, part in self.encoded_dev.items()},
        }

    def _score_function(self) -> Any:
        def scores(inputs: Any) -> Any:
            return tf.cast(self.model(inputs, training=False), tf.float32)

        ids = tf.TensorSpec([None, None], tf.int32)
        names = ("token_ids", "segment_ids", "padding_mask")
        return tf.function(scores, input_signature=[dict.fromkeys(names, ids)])

    def _for_storage(self) -> LVBertTextClassifier:
        """Returns the classifier without what training added.

        A preset would hold the optimizer's moments too. A regression's head takes over
        the unit of the labels; several labels are told by sigmoids.
        """
        targets, trained = self.targets, self.model
        stored = LVBertTextClassifier(
            trained.backbone,
            num_classes=trained.num_classes,
            preprocessor=trained.preprocessor,
            activation="sigmoid" if targets.kind == "multi_label" else None,
            dropout=trained.dropout,
            regression=trained.regression,
            labels=trained.labels,
        )
        kernel, bias = trained.output_dense.get_weights()
        stored.output_dense.set_weights(
            [kernel * targets.scale, bias * targets.scale + targets.shift]
        )
        return stored


def predict(
    scores: Any, encoded: Encoded, problem: ClassifierProblem, label: str
) -> Array:
    """Returns the outputs of encoded texts in their order, float32 (N, C)."""
    order = np.argsort(encoded.lengths, kind="stable")
    outputs: Array | None = None
    size = 32
    with Progress(len(order), "examples", label) as progress:
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            width = problem.width
            if problem.pads_freely:
                width = rounded(int(encoded.lengths[rows].max()), width)
            values = scores(encoded.batch(rows, width)).numpy()
            if outputs is None:
                outputs = np.zeros((len(order), values.shape[1]), np.float32)
            outputs[rows] = values
            progress.update(len(rows))
    assert outputs is not None
    return outputs


def pads_freely(backbone: Any) -> bool:
    """Whether outputs do not depend on how much padding follows."""
    return bool(backbone.mask_convolution) or not (
        set(backbone.architecture) - {"s", "f"}
    )


def window_of(settings: FinetuneExperiment, start: Pretrained) -> int:
    """Returns the tokens T of the window.

    Raises:
        UsageError: if it is more than the encoder's positions.
    """
    longest = start.backbone.max_sequence_length
    length = settings.run.sequence_length or start.provenance.get(
        "trained_sequence_length", min(128, longest)
    )
    if not 4 <= length <= longest:
        raise UsageError(
            f"run.sequence_length: expected 4 to {longest}, the model's positions, "
            f"found {length}"
        )
    return int(length)


def warn_of_untrained_positions(start: Pretrained, width: int) -> None:
    """Says on stderr which positions pretraining has never seen."""
    trained = start.provenance.get("trained_sequence_length")
    if trained and trained < width:
        print(
            f"warning: the model was pretrained on {trained} tokens: positions "
            f"{trained} to {width - 1} were never trained",
            file=sys.stderr,
        )


def _both_orders(settings: FinetuneExperiment, data: TaskData) -> list[LabelledExample]:
    """Returns the training examples, pairs also with their texts swapped if asked."""
    train = list(data.train)
    asked = settings.run.both_orders
    if asked == "off" or (asked == "auto" and not data.task.both_orders):
        return train
    if len(train[0].texts) != 2:
        raise UsageError(
            "run.both_orders=on: expected pairs of texts, found single ones"
        )
    swapped = [LabelledExample(e.texts[::-1], e.label, e.line) for e in train]
    return train + swapped


def _build(
    settings: FinetuneExperiment,
    start: Pretrained,
    data: TaskData,
    outputs: int,
    width: int,
) -> LVBertTextClassifier:
    if len(data.train[0].texts) == 2 and start.backbone.num_segments < 2:
        raise UsageError(
            "a task of pairs needs a model with num_segments of at least 2, found "
            f"{start.backbone.num_segments}"
        )
    return LVBertTextClassifier(
        start.backbone,
        num_classes=outputs,
        regression=data.task.kind == "regression",
        labels=list(data.labels) or None,
        dropout=settings.run.dropout,
        preprocessor=LVBertTextClassifierPreprocessor(
            start.tokenizer, sequence_length=width
        ),
    )
