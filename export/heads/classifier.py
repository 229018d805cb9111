"""Exporting text classifiers and regressions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.command_line import CommandError
from export.heads.base import Array, EncodedGraph, Head, keras_names, packed_texts
from export.signatures import BATCH, Tensor

if TYPE_CHECKING:
    from export.parity import Case
    from export.task import Task


class ClassifierHead(Head):
    """`LVBertTextClassifier`: scores of classes, or the value of a regression."""

    kind = "text_classifier"
    model_class = "LVBertTextClassifier"
    title = "classifier"

    def token_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns ``scores`` (B, C)."""
        return (Tensor("scores", "float32", (BATCH, task.num_classes)),)

    def saved_model_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns ``scores`` and, save for a regression, ``label``."""
        scores = self.token_outputs(task)
        if task.regression:
            return scores
        return (*scores, Tensor("label", "string", (BATCH,)))

    def classify_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns ``classes`` and ``scores``, or for a regression ``scores``."""
        scores = self.token_outputs(task)
        if task.regression:
            return scores
        return (Tensor("classes", "string", (BATCH, task.num_classes)), *scores)

    def compute(
        self, model: Any, task: "Task", inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes probabilities, or the values of a regression."""
        import tensorflow as tf

        outputs = tf.cast(model(keras_names(inputs), training=False), tf.float32)
        if task.logits:
            outputs = tf.nn.softmax(outputs)
        return {"scores": tf.ensure_shape(outputs, [None, task.num_classes])}

    def answer(self, task: "Task", outputs: dict[str, Any]) -> dict[str, Any]:
        """Adds to scores (B, C) the name of the highest, string (B,)."""
        import tensorflow as tf

        if task.regression:
            return outputs
        best = tf.argmax(outputs["scores"], axis=-1)
        return {**outputs, "label": tf.gather(tf.constant(task.labels), best)}

    def emit(self, graph: "EncodedGraph") -> dict[str, str]:
        """Writes the dense layer on the first token, and its activation."""
        import keras

        builder, dense = graph.builder, graph.model.output_dense
        with builder.scope("head"):
            scores = builder.dense(
                graph.first_token(), dense.kernel, dense.bias, "logits"
            )
            activation = keras.activations.serialize(graph.model.activation)
            if graph.task.logits or activation == "softmax":
                scores = builder.op("Softmax", scores, axis=-1)
            elif activation == "sigmoid":
                scores = builder.op("Sigmoid", scores)
            elif activation != "linear":
                raise CommandError(
                    "the ONNX graph of a classifier ends in softmax, sigmoid or "
                    f"nothing. Received: activation={activation!r}"
                )
        return {"scores": scores}

    def keras_outputs(
        self, model: Any, task: "Task", inputs: dict[str, Array]
    ) -> dict[str, Array]:
        """Returns float32 scores (B, C), the softmax in double precision."""
        outputs = np.asarray(model(inputs, training=False), dtype="float64")
        if task.logits:
            exponentials = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
            outputs = exponentials / exponentials.sum(axis=-1, keepdims=True)
        return {"scores": outputs.astype("float32")}

    def text_cases(self, model: Any, task: "Task", seed: int = 0) -> "list[Case]":
        """Returns texts, or pairs, that exercise a tokenizer."""
        from export.parity import Case, reference_texts, text_arrays

        texts = reference_texts(
            model.preprocessor.tokenizer.get_vocabulary(), task.sequence_length, seed
        )
        cases = []
        for name, rows in (("texts", texts), ("one text", texts[1:2])):
            columns: list[Sequence[str]] = [rows]
            if task.pairs:
                # Each text meets another one, the overlong one also itself.
                partners = [rows[-1], *rows[:-2], rows[-1]] if len(rows) > 1 else rows
                columns.append(partners)
            batch = packed_texts(model, columns)
            inputs = text_arrays(self.text_input_names(task), columns)
            cases.append(Case(name, inputs, self.reference(model, task, batch)))
        return cases

    def check_answers(
        self, case: "Case", answer: Mapping[str, Array], task: "Task"
    ) -> None:
        """Compares labels with the highest of an artefact's own scores."""
        from export.parity import check_labels

        if not task.regression:
            check_labels(case, answer["scores"], answer["label"], task)
