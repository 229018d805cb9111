"""LVBertTextClassifier: classification and regression of raw texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops

from lvbert_tf.layers.arguments import (
    check_flags,
    check_known,
    check_rates,
    positive_integers,
)
from lvbert_tf.layers.dropout import Dropout
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.class_targets import (
    class_indices,
    class_indices_in_graph,
    class_weights,
    numbers,
)
from lvbert_tf.models.encoder_task import EncoderTask
from lvbert_tf.models.fresh_heads import (
    check_is_no_supernet,
    holds_head_of,
    holds_stored_head,
    store_head,
    stored_head,
    warn_of_fresh_weights,
)
from lvbert_tf.models.parts import check_parts
from lvbert_tf.models.rows import structure_rows
from lvbert_tf.models.text_classifier_preprocessor import (
    LVBertTextClassifierPreprocessor,
)

Answer = dict[str, Any]

_OF_THE_HEAD = ("num_classes", "labels", "regression")
"""What a head is for: a new one takes none of it from a preset."""


class TextClassifier(EncoderTask, keras_hub.models.TextClassifier):
    """KerasHub's text classifier, trained on checked and shuffled arrays."""


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertTextClassifier(TextClassifier):
    """A backbone with one dense layer on the first token's hidden state.

    Args:
        backbone: the encoder.
        num_classes: number of outputs C; 1 for a regression.
        preprocessor: turns raw strings into inputs; None to pass inputs yourself.
        activation: of the output; None gives logits.
        dropout: dropout rate before the dense layer.
        regression: whether to predict a number instead of a class.
        labels: names of the classes, in order of their indices; or None.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: the backbone's inputs.

    Returns:
        Logits (or what `activation` makes of them), (B, C), float32 whatever the
        precision of the backbone (float64 where that is).

    Raises:
        ValueError: if `labels` and `num_classes` disagree or two labels are equal, a
            regression has more than one output or a classifier less than two, the
            tokenizer has another vocabulary size than the backbone, or the
            preprocessor makes longer inputs than the backbone has positions for.
    """

    backbone_cls = LVBertBackbone
    preprocessor_cls = LVBertTextClassifierPreprocessor

    def __init__(
        self,
        backbone: LVBertBackbone,
        num_classes: int,
        preprocessor: Any = None,
        activation: Any = None,
        dropout: float = 0.1,
        regression: bool = False,
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        (num_classes,) = positive_integers(num_classes=num_classes)
        check_known(self, kwargs)
        check_flags(regression=regression)
        check_rates(dropout=dropout)
        if num_classes == 1 and not regression:
            raise ValueError(
                "A classifier has `num_classes` of at least 2; one output is a "
                "regression, which takes `regression=True`. Received: "
                f"num_classes={num_classes}"
            )
        labels = _names(labels)
        if regression and num_classes != 1:
            raise ValueError(
                f"A regression has `num_classes=1`. Received: num_classes={num_classes}"
            )
        if labels is not None and len(labels) != num_classes:
            raise ValueError(
                "`labels` must name every class. Received: "
                f"labels={list(labels)}, num_classes={num_classes}"
            )
        twice = sorted({n for n in labels or () if (labels or []).count(n) > 1})
        if twice:
            raise ValueError(
                f"`labels` must differ from each other. Received twice: {twice}"
            )
        check_parts(backbone, preprocessor, LVBertTextClassifierPreprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.pooled_dropout = Dropout(
            dropout, dtype=backbone.dtype_policy, name="pooled_dropout"
        )
        self.output_dense = keras.layers.Dense(
            num_classes,
            activation=activation,
            dtype=_dtype_of_logits(backbone.dtype_policy),
            name="logits",
        )
        # === Functional model ===
        inputs = backbone.input
        pooled = backbone(inputs)[:, 0, :]
        outputs = self.output_dense(self.pooled_dropout(pooled))
        # === Config (before the base class compiles) ===
        self.regression = regression
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.num_classes = num_classes
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.labels = None if labels is None else list(labels)

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = "auto",
        **kwargs: Any,
    ) -> None:
        """Configures training; "auto" gives a regression the mean squared error."""
        if self.regression and loss == "auto":
            loss = keras.losses.MeanSquaredError()
        if self.regression and metrics == "auto":
            metrics = [keras.metrics.MeanSquaredError()]
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

    def preprocess_samples(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> Any:
        """Preprocesses a batch; names among the targets become class indices."""
        if y is not None and tf.is_tensor(y) and self._has_class_targets(y):
            y = class_indices_in_graph(y, self.labels, self.num_classes)
        return super().preprocess_samples(x, y, sample_weight)

    def classify(self, x: Any, *, batch_size: int | None = None) -> list[Answer]:
        """Returns an answer for each text, as the ONNX predictor does.

        Args:
            x: strings (B,), or a tuple of two such for pairs.
            batch_size: texts computed at a time.

        Returns:
            For each ``{"label": ..., "scores": [...]}``: the name of the most probable
            class (its index as a string where there are no `labels`) and the
            probabilities of all. A regression gives ``{"scores": [value]}``.
        """
        outputs = self.predict(x, batch_size=batch_size, verbose=0)
        if self.regression:
            return [{"scores": row} for row in outputs.tolist()]
        if self.activation == keras.activations.linear:
            outputs = np.asarray(ops.softmax(outputs, axis=-1))
        names = self.labels or [str(index) for index in range(self.num_classes)]
        return [
            {"label": names[int(np.argmax(row))], "scores": row.tolist()}
            for row in outputs
        ]

    def _has_class_targets(self, y: Any) -> bool:
        """Whether targets are classes, one a row: names, or what the loss takes so."""
        if self.regression:
            return False
        names = y.dtype == tf.string or getattr(y.dtype, "kind", "") in tuple("OSUT")
        loss = getattr(self, "loss", None)
        sparse = isinstance(loss, keras.losses.SparseCategoricalCrossentropy) or (
            loss == "sparse_categorical_crossentropy"
        )
        return names or sparse

    def _targets(self, x: Any, y: Any) -> Any:
        rows = structure_rows(y)
        if self.regression:
            return numbers(rows)
        if not isinstance(rows, (dict, tuple)) and self._has_class_targets(rows):
            return class_indices(y, self.labels, self.num_classes)
        return rows

    def _class_weights(self, class_weight: Any) -> dict[int, float]:
        if self.regression:
            return super()._class_weights(class_weight)
        return class_weights(class_weight, self.labels, self.num_classes)

    @classmethod
    def from_preset(
        cls, preset: Any, load_weights: bool = True, **kwargs: Any
    ) -> "LVBertTextClassifier":
        """Returns the classifier of a preset, or a new one on its backbone.

        Args:
            preset: the directory, or a handle such as "hf://user/model".
            load_weights: whether to load weights or draw them anew.
            **kwargs: constructor arguments. With `num_classes` the head is a new one:
                it takes no weights, labels or kind (`regression`) from the preset.

        Warns:
            UserWarning: naming the weights that are fresh.

        Raises:
            ValueError: if the preset holds no classifier and `num_classes` is not
                given, or it is a supernet.
        """
        check_is_no_supernet(preset)
        stored = holds_head_of(preset, cls)
        marked = stored and holds_stored_head(preset)
        if "num_classes" in kwargs:
            kwargs = {"labels": None, "regression": False, **kwargs}
        elif not stored:
            raise ValueError(
                f"{preset} holds no classifier: its head is to be made, with "
                "`num_classes` outputs (or `num_classes=1, regression=True`). "
                "Received: no num_classes"
            )
        task: LVBertTextClassifier = super().from_preset(
            preset, load_weights=load_weights, **kwargs
        )
        if load_weights and stored and "num_classes" in kwargs and not marked:
            warn_of_fresh_weights(task, preset)
        return task

    def save_to_preset(self, preset_dir: Any, *args: Any, **kwargs: Any) -> None:
        """Writes the classifier as a preset directory; see KerasHub's `Task`."""
        super().save_to_preset(str(preset_dir), *args, **kwargs)
        store_head(preset_dir, _OF_THE_HEAD)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LVBertTextClassifier":
        """Rebuilds the classifier; with another head if a preset's is not wanted.

        Warns:
            UserWarning: naming the fresh weights, where `num_classes` was given to
                KerasHub's `from_preset`, which then loads none for the head.
        """
        config, fresh = stored_head(config, _OF_THE_HEAD)
        task: LVBertTextClassifier = super().from_config(config)
        if fresh:
            warn_of_fresh_weights(task, "the preset, for other classes,")
        return task

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "regression": self.regression,
            "labels": self.labels,
        }


def _names(labels: Any) -> list[str] | None:
    """Returns names of classes as a list, in order."""
    if labels is None:
        return None
    # A string is letters, and a set has no order.
    ordered = not isinstance(labels, (str, bytes, set, frozenset, Mapping))
    names = [str(n) if isinstance(n, np.str_) else n for n in labels] if ordered else []
    if not ordered or not all(isinstance(name, str) for name in names):
        raise ValueError(
            "`labels` must be a list of names, in order of their indices. Received: "
            f"labels={labels!r:.80}"
        )
    return names


def _dtype_of_logits(policy: Any) -> str:
    return "float64" if policy.compute_dtype == "float64" else "float32"
