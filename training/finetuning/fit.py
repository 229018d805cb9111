"""Fine-tuning of one classifier by Keras `fit`."""

import math
from collections.abc import Sequence
from typing import Any

import keras

from common.command_line import CommandError, UsageError
from lvbert_tf import LVBertTextClassifier, LVBertTextClassifierPreprocessor
from lvbert_tf.optimization import AdamW, WarmupLinearDecay, layer_wise_decay
from training.finetuning.classifier_data import training_dataset
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.pretrained import Pretrained
from training.finetuning.tasks import Example, Task
from training.run.progress import Progress

_LOGS_PER_RUN = 50


def build_classifier(
    settings: FinetuneExperiment, start: Pretrained, labels: Sequence[str]
) -> LVBertTextClassifier:
    """Returns a classifier with a new head on a pretrained encoder.

    Raises:
        UsageError: if the asked sequence length is more than the encoder's positions.
    """
    longest = start.backbone.max_sequence_length
    length = settings.run.sequence_length or start.provenance.get(
        "trained_sequence_length", min(128, longest)
    )
    if length > longest:
        raise UsageError(
            f"run.sequence_length: the model has {longest} positions, found {length}"
        )
    return LVBertTextClassifier(
        start.backbone,
        num_classes=len(labels),
        labels=list(labels),
        dropout=settings.run.dropout,
        preprocessor=LVBertTextClassifierPreprocessor(
            start.tokenizer, sequence_length=length
        ),
    )


def for_storage(classifier: LVBertTextClassifier) -> LVBertTextClassifier:
    """Returns the same classifier without what training added.

    A preset would hold the optimizer's moments too, twice the size of the weights, and
    warn whoever loads it that they fit no optimizer there.
    """
    stored = LVBertTextClassifier(
        classifier.backbone,
        num_classes=classifier.num_classes,
        preprocessor=classifier.preprocessor,
        activation=classifier.activation,
        dropout=classifier.dropout,
        labels=classifier.labels,
    )
    stored.output_dense.set_weights(classifier.output_dense.get_weights())
    return stored


def fit(
    classifier: LVBertTextClassifier,
    settings: FinetuneExperiment,
    task: Task,
    examples: Sequence[Example],
    indices: Sequence[int],
    seed: int,
) -> list[dict[str, float]]:
    """Trains the classifier.

    Args:
        classifier: takes raw strings.
        settings: of the experiment.
        task: whose number of epochs holds where the settings give none.
        examples: to train on.
        indices: their class indices.
        seed: of the order.

    Returns:
        `step`, `loss` and `accuracy` now and then, averaged since the epoch began.

    Raises:
        CommandError: if the loss becomes non-finite, with the step.
    """
    epochs = settings.run.epochs or task.epochs
    steps = epochs * math.ceil(len(examples) / settings.run.batch_size)
    options = settings.optimizer
    classifier.compile(
        optimizer=AdamW(
            WarmupLinearDecay(
                options.learning_rate, steps, options.warmup_fraction * steps
            ),
            weight_decay=options.weight_decay,
            clip_norm=options.clip_norm,
            learning_rate_multipliers=layer_wise_decay(
                len(classifier.backbone.architecture), options.layer_decay
            ),
        ),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=False,
    )
    with Progress(steps, "steps", f"seed {seed}: fit") as progress:
        watcher = _Watcher(progress, steps)
        classifier.fit(
            training_dataset(
                examples, indices, batch_size=settings.run.batch_size, seed=seed
            ),
            epochs=epochs,
            shuffle=False,  # the dataset has an order of its own in every epoch
            verbose=0,
            callbacks=[watcher],
        )
    return watcher.history


class _Watcher(keras.callbacks.Callback):
    """Shows the progress, keeps a curve, and stops at a loss that is not finite."""

    def __init__(self, progress: Progress, steps: int) -> None:
        super().__init__()
        self.history: list[dict[str, float]] = []
        self._progress = progress
        self._step = 0
        self._every = max(1, steps // _LOGS_PER_RUN)

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Looks at the figures of a step."""
        figures = {name: float(value) for name, value in (logs or {}).items()}
        self._step += 1
        if not math.isfinite(figures.get("loss", 0.0)):
            raise CommandError(
                f"step {self._step}: loss is {figures['loss']}, expected a finite "
                "number; a lower optimizer.learning_rate helps"
            )
        if self._step % self._every == 0:
            self.history.append({"step": self._step, **figures})
        self._progress.set(**figures)
        self._progress.update(1)
