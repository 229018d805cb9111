"""What an export asks of each kind of model."""

import abc
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from export.signatures import (
    BATCH,
    KERAS_INPUTS,
    SEQUENCE,
    TEXT_INPUTS,
    TOKEN_INPUTS,
    Tensor,
)

if TYPE_CHECKING:
    from export.onnx_builder import GraphBuilder
    from export.parity import Case
    from export.task import Task

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class EncodedGraph:
    """An ONNX graph up to the encoder's hidden states, which a head continues.

    Attributes:
        builder: takes the nodes.
        model: the Keras model.
        task: what it does.
        hidden: name of the hidden states, float32 (B, T, H).
        inputs: names of the token inputs, padded as in training, by their own.
    """

    builder: "GraphBuilder"
    model: Any
    task: "Task"
    hidden: str
    inputs: Mapping[str, str]

    def first_token(self) -> str:
        """Writes the hidden states of first tokens, float32 (B, H)."""
        first = self.builder.slice(self.hidden, 1, 0, 1)
        return self.builder.reshape(first, 0, self.task.hidden_dim)


class Head(abc.ABC):
    """The part of an export that depends on the kind of model.

    Attributes:
        kind: its name in manifests.
        model_class: the class of `lvbert_tf` that it exports.
        title: what people call such a model.
    """

    kind: ClassVar[str]
    model_class: ClassVar[str]
    title: ClassVar[str]

    def text_input_names(self, task: "Task") -> tuple[str, ...]:
        """Returns the names of the inputs that take raw text."""
        return TEXT_INPUTS[: 2 if task.pairs else 1]

    def token_inputs(self, task: "Task", dtype: str) -> tuple[Tensor, ...]:
        """Returns the token inputs in an integer type."""
        return tuple(Tensor(name, dtype, (BATCH, SEQUENCE)) for name in TOKEN_INPUTS)

    @abc.abstractmethod
    def token_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns what the token inputs give."""

    def saved_model_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns what the SavedModel's signature of tokens gives."""
        return self.token_outputs(task)

    def text_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns what raw texts give."""
        return self.saved_model_outputs(task)

    def classify_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns what TensorFlow Serving's Classify gives; nothing: no such."""
        return ()

    @abc.abstractmethod
    def compute(
        self, model: Any, task: "Task", inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes `token_outputs` with TensorFlow.

        Args:
            model: the Keras model.
            task: what it does.
            inputs: int32 tensors by the names of `token_inputs`, padded as in training.
        """

    def finish(self, task: "Task", outputs: dict[str, Any], length: Any) -> Any:
        """Cuts outputs with an axis of tokens to the `length` that was given."""
        return outputs

    def answer(self, task: "Task", outputs: dict[str, Any]) -> dict[str, Any]:
        """Returns `saved_model_outputs` for `token_outputs`, with TensorFlow."""
        return outputs

    def text_answer(self, graph: Any, texts: Sequence[Any]) -> dict[str, Any]:
        """Returns `text_outputs` and ``truncated``, with TensorFlow.

        Args:
            graph: the `InferenceGraph`.
            texts: string tensors (B,), of `text_input_names`.
        """
        inputs, truncated = graph.packed(texts)
        outputs = graph.run(dict(zip(TOKEN_INPUTS, inputs, strict=True)))
        return {**self.answer(graph.task, outputs), "truncated": truncated}

    @abc.abstractmethod
    def emit(self, graph: "EncodedGraph") -> dict[str, str]:
        """Writes `token_outputs` as ONNX nodes.

        Args:
            graph: the graph up to the encoder's hidden states.

        Returns:
            Names of tensors by names of outputs.
        """

    def reference(
        self, model: Any, task: "Task", batch: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Returns what Keras gives for token inputs of any width: `token_outputs`."""
        with warnings.catch_warnings():
            # Keras takes the softmax over the one key of a one-token text for a
            # mistake.
            warnings.filterwarnings(
                "ignore", message="You are using a softmax over axis"
            )
            outputs = self.keras_outputs(model, task, keras_batch(task, batch))
        length = batch[TOKEN_INPUTS[0]].shape[1]
        finished: dict[str, Array] = self.finish(task, outputs, length)
        return finished

    @abc.abstractmethod
    def keras_outputs(
        self, model: Any, task: "Task", inputs: dict[str, Array]
    ) -> dict[str, Array]:
        """Returns `token_outputs` of the Keras model for its own inputs."""

    def more_inputs(self, task: "Task", batch: dict[str, Array]) -> dict[str, Array]:
        """Returns inputs of cases beside `TOKEN_INPUTS`."""
        return {}

    def comparable(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Returns the numbers in outputs that can be compared one by one."""
        return dict(outputs)

    @abc.abstractmethod
    def text_cases(self, model: Any, task: "Task", seed: int = 0) -> "list[Case]":
        """Returns raw texts with what Keras gives for them."""

    def check_answers(  # noqa: B027  most heads give numbers only
        self, case: "Case", answer: Mapping[str, Array], task: "Task"
    ) -> None:
        """Checks what is no number in an answer.

        Raises:
            ParityError: if it is wrong.
        """


def keras_batch(task: "Task", batch: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the inputs of a Keras model, padded as in training where that matters."""
    width = batch[TOKEN_INPUTS[0]].shape[1]
    missing = task.sequence_length - width if task.fixed_length else 0
    fill = dict(zip(TOKEN_INPUTS, (task.pad_token_id, 0, 0), strict=True))
    inputs = {
        keras_name: np.pad(
            batch[name].astype("int32"),
            ((0, 0), (0, missing)),
            constant_values=fill[name],
        )
        for name, keras_name in zip(TOKEN_INPUTS, KERAS_INPUTS, strict=True)
    }
    others = {
        name: values for name, values in batch.items() if name not in TOKEN_INPUTS
    }
    return {**inputs, **others}


def keras_names(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns tensors by the backbone's names."""
    names = dict(zip(TOKEN_INPUTS, KERAS_INPUTS, strict=True))
    return {names.get(name, name): value for name, value in inputs.items()}


def packed_texts(model: Any, texts: Sequence[Sequence[str]]) -> dict[str, Array]:
    """Returns the token inputs that a preprocessor makes of texts, or pairs."""
    # Alone, a tuple of two would be taken for inputs and labels.
    given = tuple(map(list, texts)) if len(texts) > 1 else list(texts[0])
    packed = model.preprocessor(given, None)
    return {
        name: np.asarray(packed[keras_name])
        for name, keras_name in zip(TOKEN_INPUTS, KERAS_INPUTS, strict=True)
    }
