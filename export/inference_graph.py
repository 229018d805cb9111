"""A model as TensorFlow functions: what the artefacts compute.

Layers stay free of checks on values (`keras.ops` cannot raise on them), so the checks
stand here, in the graph: a server runs nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from export.heads import head_of
from export.signatures import (
    CLASSIFY,
    SCORES_ONLY,
    SERVING_DEFAULT,
    TOKEN_INPUTS,
    TOKENS,
    Tensor,
    saved_model_signatures,
)
from export.task import Task

Tensors = dict[str, tf.Tensor]


class InferenceGraph(tf.Module):
    """Holds the weights and builds the signatures of a model.

    Args:
        model: a model of a kind in `export.heads`.
        task: what it does.
    """

    def __init__(self, model: Any, task: Task) -> None:
        super().__init__(name="lvbert")
        self._head = _Hidden(head_of(task))
        self._task = _Hidden(task)
        # Keras variables hidden in an untracked model would be saved under names that
        # only Python finds again; TensorFlow Serving needs the bare variables here.
        self.weights = [weight.value for weight in model.weights]
        self._model = _Hidden(model)
        self._traced = _Hidden(None)

    @property
    def task(self) -> Task:
        """What the model does."""
        task: Task = self._task.value
        return task

    @property
    def model(self) -> Any:
        """The Keras model."""
        return self._model.value

    def outputs(self, inputs: Mapping[str, tf.Tensor]) -> Tensors:
        """Computes what token inputs give, without any check.

        Args:
            inputs: int32 tensors by the names in the table of signatures.
        """
        head = self._head.value
        given = inputs[TOKEN_INPUTS[0]]
        if self.task.fixed_length:
            inputs = self._padded(inputs)
        outputs = head.compute(self.model, self.task, inputs)
        result: Tensors = head.finish(self.task, outputs, tf.shape(given)[1])
        return result

    def _padded(self, inputs: Mapping[str, tf.Tensor]) -> Tensors:
        """Gives (B, T) tensors the one length and the padding of training."""
        real = inputs["padding_mask"] > 0
        missing = self.task.sequence_length - tf.shape(real)[1]
        fills = dict(zip(TOKEN_INPUTS, (self.task.pad_token_id, 0, 0), strict=True))
        padded = {
            name: tf.pad(
                tf.where(real, inputs[name], fill),
                [[0, 0], [0, missing]],
                constant_values=fill,
            )
            for name, fill in fills.items()
        }
        return {**inputs, **padded}

    def run(self, inputs: Mapping[str, tf.Tensor]) -> Tensors:
        """Computes `outputs` by the function that all signatures share."""
        result: Tensors = self._traced.value(**inputs)
        return result

    def signatures(self) -> dict[str, Any]:
        """Returns the concrete functions of the SavedModel by signature name."""
        head = self._head.value
        # The encoder is traced once, for all of them.
        self._traced = _Hidden(
            tf.function(
                lambda **inputs: self.outputs(inputs), autograph=False
            ).get_concrete_function(
                **{
                    tensor.name: _spec(tensor)
                    for tensor in head.token_inputs(self.task, "int32")
                }
            )
        )
        functions: dict[str, Callable[..., Tensors]] = {
            SERVING_DEFAULT: self._texts,
            SCORES_ONLY: self._scores_only,
            TOKENS: self._tokens,
            CLASSIFY: self._classify,
        }
        return {
            name: tf.function(
                _with_arguments(
                    functions[name], [tensor.name for tensor in signature.inputs]
                ),
                autograph=False,
            ).get_concrete_function(*map(_spec, signature.inputs))
            for name, signature in saved_model_signatures(self.task).items()
        }

    def _answer(self, texts: Mapping[str, tf.Tensor]) -> Tensors:
        # First of all: the server doesn't check shapes, and the tokenizer's ops crash
        # the process where a scalar reaches them.
        strings = [tf.ensure_shape(text, [None]) for text in texts.values()]
        answer: Tensors = self._head.value.text_answer(self, strings)
        return answer

    def _texts(self, **texts: tf.Tensor) -> Tensors:
        answer = self._answer(texts)
        if not self.task.truncated:
            del answer["truncated"]
        return answer

    def _scores_only(self, **texts: tf.Tensor) -> Tensors:
        return {"scores": self._answer(texts)["scores"]}

    def _tokens(self, **inputs: tf.Tensor) -> Tensors:
        head = self._head.value
        answer: Tensors = head.answer(
            self.task, self.run(checked_tokens(inputs, self.task))
        )
        return answer

    def _classify(self, inputs: tf.Tensor) -> Tensors:
        inputs = tf.ensure_shape(inputs, [None])
        names = self._head.value.text_input_names(self.task)
        feature = tf.io.FixedLenFeature([], tf.string)
        parsed = tf.io.parse_example(inputs, dict.fromkeys(names, feature))
        scores = self._answer({name: parsed[name] for name in names})["scores"]
        if self.task.regression:
            return {"scores": scores}
        labels = tf.constant(self.task.labels)[tf.newaxis]
        return {
            "classes": tf.tile(labels, [tf.shape(scores)[0], 1]),
            "scores": scores,
        }

    def packed(self, texts: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns token inputs for texts, string (B,) each, and which were cut."""
        names = self._head.value.text_input_names(self.task)
        tokenizer = self.model.preprocessor.tokenizer
        return self.packed_ids(
            [tokenizer.tokenize_strings(text) for text in equally_many(texts, names)]
        )

    def packed_ids(
        self, segments: Sequence[tf.RaggedTensor]
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Lays out one or two segments of ids (B, None), as in training.

        Returns:
            The token inputs (B, T); and whether tokens were cut, bool (B,).
        """
        from lvbert_tf.models.packing import pack_segments

        tokenizer = self.model.preprocessor.tokenizer
        limit = self.task.sequence_length
        packed = pack_segments(
            *segments,
            sequence_length=limit if self.task.fixed_length else None,
            max_sequence_length=limit,
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        lengths = tf.add_n([segment.row_lengths() for segment in segments])
        room = limit - 1 - len(segments)
        return list(packed), lengths > room


def equally_many(
    texts: Sequence[tf.Tensor], names: Sequence[str]
) -> Sequence[tf.Tensor]:
    """Returns texts (B,) behind a check that all have the same B."""
    if len(texts) == 1:
        return texts
    check = tf.debugging.assert_equal(
        tf.shape(texts[0]),
        tf.shape(texts[1]),
        f"{' and '.join(names)} must be equally many",
    )
    with tf.control_dependencies([check]):
        return [tf.identity(text) for text in texts]


def checked_tokens(inputs: Mapping[str, tf.Tensor], task: Task) -> Tensors:
    """Returns token inputs (B, T), and positions (B, M), behind checks in the graph.

    A lookup beyond a table fails on CPU with a message about the table, wraps around
    for negative ids and gives zeros on GPU.

    Raises:
        tf.errors.InvalidArgumentError: when run, for a wrong rank, unequal shapes, no
            or too many tokens, or a value outside its range.
    """
    tensors = {
        name: tf.ensure_shape(tensor, [None, None]) for name, tensor in inputs.items()
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
    limits = dict(
        zip(TOKEN_INPUTS, (task.vocabulary_size, task.num_segments, 2), strict=True)
    )
    for name, limit in limits.items():
        checks.append(_in_range(name, tensors[name], limit, str(limit - 1)))
    if "mask_positions" in tensors:
        positions = tensors["mask_positions"]
        checks += [
            tf.debugging.assert_equal(
                tf.shape(positions)[0],
                shape[0],
                "mask_positions must have as many rows as input_ids",
            ),
            _in_range("mask_positions", positions, shape[1], "the last token"),
        ]
    with tf.control_dependencies(checks):
        return {name: tf.identity(tensor) for name, tensor in tensors.items()}


def _in_range(name: str, tensor: tf.Tensor, limit: Any, last: str) -> Any:
    inside = tf.reduce_all(tf.logical_and(tensor >= 0, tensor < limit))
    extremes = [tf.reduce_min(tensor), tf.reduce_max(tensor)]
    message = f"{name} must be from 0 to {last}. Received from, to:"
    return tf.debugging.Assert(inside, [message, *extremes])


def _with_arguments(
    function: Callable[..., Tensors], names: Sequence[str]
) -> Callable[..., Tensors]:
    """Returns a function of positional arguments with the given names.

    They become the names of the signature's inputs.
    """
    from inspect import Parameter, Signature

    def named(*tensors: tf.Tensor, **by_name: tf.Tensor) -> Tensors:
        return function(**dict(zip(names, tensors, strict=False)), **by_name)

    named.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return named


class _Hidden:
    """Keeps a Keras model out of what `tf.Module` tracks and saves."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _spec(tensor: Tensor) -> tf.TensorSpec:
    return tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name)
