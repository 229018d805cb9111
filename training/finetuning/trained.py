"""Models that fine-tuning wrote, loaded to predict."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.command_line import CommandError, UsageError
from training.finetuning.classifier import pads_freely
from training.finetuning.encoding import encode, rounded, warn_of_losses
from training.run.progress import Progress

_BATCH = 32


@dataclass(frozen=True)
class Trained:
    """A fine-tuned model.

    Attributes:
        model: an `LVBertTextClassifier` or `LVBertSpanPredictor`.
        provenance: content of its ``training.json``.
    """

    model: Any
    provenance: dict[str, Any]

    @property
    def kind(self) -> str:
        """What it predicts, one of `training.finetuning.tasks.KINDS`."""
        return str(self.provenance.get("kind", "classification"))

    @property
    def pairs(self) -> bool:
        """Whether it takes two texts."""
        return bool(self.provenance.get("pairs"))


def load_trained(directory: Path) -> Trained:
    """Loads a model directory that `finetune` wrote.

    Raises:
        UsageError: if it is none.
    """
    file = directory / "training.json"
    provenance = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if provenance.get("stage") != "finetune":
        raise UsageError(
            f"--model {directory}: expected a model directory that `finetune` wrote "
            "(RUN_DIR/model), with its training.json, found none"
        )
    from lvbert_tf import LVBertSpanPredictor, LVBertTextClassifier

    span = provenance.get("kind") == "span"
    kind = LVBertSpanPredictor if span else LVBertTextClassifier
    try:
        return Trained(kind.from_preset(str(directory)), provenance)
    except (ValueError, OSError, KeyError) as error:
        raise CommandError(
            f"--model {directory}: cannot load this model: {error}"
        ) from error


def outputs_of(
    trained: Trained, texts: list[tuple[str, ...]], label: str
) -> tuple[Any, list[str]]:
    """Returns outputs for texts in their order, and sentences about what was lost.

    Args:
        trained: a classifier or regression.
        texts: one or two for each example, as the model takes them.
        label: what the progress bar says.

    Returns:
        float64 (N, C): probabilities of classes, or numbers in the labels' unit.

    Raises:
        UsageError: if the model takes another number of texts.
    """
    import tensorflow as tf

    wanted = 2 if trained.pairs else 1
    if any(len(example) != wanted for example in texts):
        raise UsageError(
            f"{label}: the model takes {wanted} texts an example, found {len(texts[0])}"
        )
    model = trained.model
    width = model.preprocessor.sequence_length
    encoded = encode(model.preprocessor.tokenizer, texts, width)
    free = pads_freely(model.backbone)
    scores = tf.function(
        lambda inputs: tf.cast(model(inputs, training=False), tf.float32),
        input_signature=[
            dict.fromkeys(
                ("token_ids", "segment_ids", "padding_mask"),
                tf.TensorSpec([None, None], tf.int32),
            )
        ],
    )
    order = np.argsort(encoded.lengths, kind="stable")
    outputs = np.zeros((len(order), model.num_classes))
    with Progress(len(order), "examples", label) as progress:
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            longest = int(encoded.lengths[rows].max())
            batch = encoded.batch(rows, rounded(longest, width) if free else width)
            outputs[rows] = scores(batch).numpy()
            progress.update(len(rows))
    if trained.kind == "classification":
        powers = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs = powers / powers.sum(axis=-1, keepdims=True)
    return outputs, warn_of_losses(label, encoded, width)
