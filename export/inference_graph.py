"""The classifier as TensorFlow functions: what the artefacts compute.

Layers stay free of checks on values (`keras.ops` cannot raise on them), so the checks
stand here, in the graph: a server runs nothing else.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from export.signatures import (
    CLASSIFY,
    KERAS_INPUTS,
    SERVING_DEFAULT,
    TEXT_INPUTS,
    TOKEN_INPUTS,
    TOKENS,
    Tensor,
    saved_model_signatures,
)
from export.task import Task


class InferenceGraph(tf.Module):
    """Holds the weights and builds the signatures of a classifier.

    Args:
        classifier: an `LVBertTextClassifier`.
        task: what it does.
    """

    def __init__(self, classifier: Any, task: Task) -> None:
        super().__init__(name="lvbert_classifier")
        self._task = task
        # Keras variables hidden in an untracked model would be saved under names that
        # only Python finds again; TensorFlow Serving needs the bare variables here.
        self.weights = [weight.value for weight in classifier.weights]
        self._classifier = _Hidden(classifier)
        self._traced = _Hidden(None)

    def scores(
        self, input_ids: tf.Tensor, segment_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes scores without any check.

        Args:
            input_ids: int32 (B, T).
            segment_ids: int32 (B, T).
            padding_mask: int32 (B, T), 1 for real tokens.

        Returns:
            float32 (B, C): probabilities, or the values of a regression.
        """
        tensors = [input_ids, segment_ids, padding_mask]
        if self._task.fixed_length:
            tensors = self._padded(tensors)
        inputs = dict(zip(KERAS_INPUTS, tensors, strict=True))
        outputs = tf.cast(self._classifier.value(inputs, training=False), tf.float32)
        if self._task.logits:
            outputs = tf.nn.softmax(outputs)
        return tf.ensure_shape(outputs, [None, self._task.num_classes])

    def _padded(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        """Gives (B, T) tensors the one length and the padding of training."""
        real = tensors[2] > 0
        missing = self._task.sequence_length - tf.shape(real)[1]
        fills = (self._task.pad_token_id, 0, 0)
        return [
            tf.pad(
                tf.where(real, tensor, fill),
                [[0, 0], [0, missing]],
                constant_values=fill,
            )
            for tensor, fill in zip(tensors, fills, strict=True)
        ]

    def signatures(self) -> dict[str, Any]:
        """Returns the concrete functions of the SavedModel by signature name."""
        # The encoder is traced once, for all of them.
        self._traced = _Hidden(
            tf.function(self.scores, autograph=False).get_concrete_function(
                *(tf.TensorSpec([None, None], tf.int32, name=n) for n in TOKEN_INPUTS)
            )
        )
        functions = {
            SERVING_DEFAULT: self._text_signature(),
            TOKENS: self._tokens,
            CLASSIFY: self._classify,
        }
        table = saved_model_signatures(
            self._task.num_classes, self._task.pairs, self._task.regression
        )
        return {
            name: tf.function(functions[name], autograph=False).get_concrete_function(
                *(_spec(tensor) for tensor in signature.inputs)
            )
            for name, signature in table.items()
        }

    def _text_signature(self) -> Callable[..., dict[str, tf.Tensor]]:
        # The names of the arguments become those of the signature's inputs.
        if self._task.pairs:
            return lambda text, text_pair: self._answer(
                self._text_scores([text, text_pair])
            )
        return lambda text: self._answer(self._text_scores([text]))

    def _tokens(
        self, input_ids: tf.Tensor, segment_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        tensors = checked_tokens(input_ids, segment_ids, padding_mask, self._task)
        return self._answer(self._traced.value(*tensors))

    def _classify(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = tf.ensure_shape(inputs, [None])
        names = TEXT_INPUTS if self._task.pairs else TEXT_INPUTS[:1]
        feature = tf.io.FixedLenFeature([], tf.string)
        parsed = tf.io.parse_example(inputs, dict.fromkeys(names, feature))
        scores = self._text_scores([parsed[name] for name in names])
        if self._task.regression:
            return {"scores": scores}
        labels = tf.constant(self._task.labels)[tf.newaxis]
        return {
            "classes": tf.tile(labels, [tf.shape(scores)[0], 1]),
            "scores": scores,
        }

    def _text_scores(self, texts: list[tf.Tensor]) -> tf.Tensor:
        """Texts, string (B,) each, to scores (B, C)."""
        from lvbert_tf.models.packing import pack_segments

        # First of all: the server doesn't check shapes, and the tokenizer's ops crash
        # the process where a scalar reaches them.
        texts = [tf.ensure_shape(text, [None]) for text in texts]
        if len(texts) > 1:
            with tf.control_dependencies(
                [
                    tf.debugging.assert_equal(
                        tf.shape(texts[0]),
                        tf.shape(texts[1]),
                        "text and text_pair must be equally many",
                    )
                ]
            ):
                texts = [tf.identity(text) for text in texts]
        tokenizer = self._classifier.value.preprocessor.tokenizer
        limit = self._task.sequence_length
        packed = pack_segments(
            *[tokenizer.tokenize_strings(text) for text in texts],
            sequence_length=limit if self._task.fixed_length else None,
            max_sequence_length=limit,
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        return self._traced.value(*packed)

    def _answer(self, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """Adds to a classifier's scores (B, C) the name of the highest, string (B,)."""
        if self._task.regression:
            return {"scores": scores}
        labels = tf.constant(self._task.labels)
        return {
            "scores": scores,
            "label": tf.gather(labels, tf.argmax(scores, axis=-1)),
        }


def checked_tokens(
    input_ids: tf.Tensor, segment_ids: tf.Tensor, padding_mask: tf.Tensor, task: Task
) -> list[tf.Tensor]:
    """Returns token inputs (B, T) behind checks that run in the graph.

    A lookup beyond a table fails on CPU with a message about the table, wraps around
    for negative ids and gives zeros on GPU.

    Raises:
        tf.errors.InvalidArgumentError: when run, for a wrong rank, unequal shapes, no
            or too many tokens, or a value outside its range.
    """
    tensors = dict(
        zip(TOKEN_INPUTS, (input_ids, segment_ids, padding_mask), strict=True)
    )
    tensors = {
        name: tf.ensure_shape(tensor, [None, None]) for name, tensor in tensors.items()
    }
    shape = tf.shape(tensors["input_ids"])
    checks = [
        tf.debugging.assert_equal(
            tf.shape(tensors[name]), shape, f"{name} must have the shape of input_ids"
        )
        for name in TOKEN_INPUTS[1:]
    ]
    longest = task.longest_input
    checks.append(
        tf.debugging.Assert(
            tf.logical_and(shape[1] >= 1, shape[1] <= longest),
            [f"input_ids must have 1 to {longest} tokens. Received:", shape[1]],
        )
    )
    limits = (task.vocabulary_size, task.num_segments, 2)
    for (name, tensor), limit in zip(tensors.items(), limits, strict=True):
        inside = tf.reduce_all(tf.logical_and(tensor >= 0, tensor < limit))
        extremes = [tf.reduce_min(tensor), tf.reduce_max(tensor)]
        checks.append(
            tf.debugging.Assert(
                inside,
                [
                    f"{name} must be from 0 to {limit - 1}. Received from, to:",
                    *extremes,
                ],
            )
        )
    with tf.control_dependencies(checks):
        return [tf.identity(tensor) for tensor in tensors.values()]


class _Hidden:
    """Keeps a Keras model out of what `tf.Module` tracks and saves."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _spec(tensor: Tensor) -> tf.TensorSpec:
    return tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name)
