"""LVBertTextClassifier: classification and regression of raw texts."""

from collections.abc import Sequence
from typing import Any

import keras
from keras_hub.models import TextClassifier

from lvbert_tf.layers.dropout import Dropout
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.compilation import SavesCompilation
from lvbert_tf.models.text_classifier_preprocessor import (
    LVBertTextClassifierPreprocessor,
)


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertTextClassifier(SavesCompilation, TextClassifier):
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
        Logits (or what `activation` makes of them), (B, C).

    Raises:
        ValueError: if `labels` and `num_classes` disagree, a regression has more than
            one output, or the tokenizer has another vocabulary size than the backbone.
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
        if regression and num_classes != 1:
            raise ValueError(
                f"A regression has `num_classes=1`. Received: num_classes={num_classes}"
            )
        if labels is not None and len(labels) != num_classes:
            raise ValueError(
                "`labels` must name every class. Received: "
                f"labels={list(labels)}, num_classes={num_classes}"
            )
        check_vocabulary_size(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.pooled_dropout = Dropout(
            dropout, dtype=backbone.dtype_policy, name="pooled_dropout"
        )
        self.output_dense = keras.layers.Dense(
            num_classes,
            activation=activation,
            dtype=backbone.dtype_policy,
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


def check_vocabulary_size(backbone: LVBertBackbone, preprocessor: Any) -> None:
    """Refuses a preprocessor whose ids the backbone's table would not hold.

    Raises:
        ValueError: if the tokenizer's vocabulary is of another size.
    """
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # A tokenizer that is being restored gets its vocabulary after this.
    if tokenizer is None or tokenizer.vocabulary is None:
        return
    size = tokenizer.vocabulary_size()
    if size != backbone.vocabulary_size:
        raise ValueError(
            "The preprocessor's tokenizer and the backbone must have the same "
            f"vocabulary. Received: {size} tokens and vocabulary_size="
            f"{backbone.vocabulary_size}"
        )
