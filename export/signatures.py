"""Names, types and axes of every tensor that an artefact takes or gives.

One table for the SavedModel's signatures, the ONNX graph, the manifests and the checks.
What a kind of model adds to it, its head says (`export.heads`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BATCH = "batch"
SEQUENCE = "sequence"
MASKS = "masks"

TEXT_INPUTS = ("text", "text_pair")
TOKEN_INPUTS = ("input_ids", "segment_ids", "padding_mask")
KERAS_INPUTS = ("token_ids", "segment_ids", "padding_mask")
"""The backbone's names for `TOKEN_INPUTS`, in the same order."""

SERVING_DEFAULT = "serving_default"
TOKENS = "tokens"
CLASSIFY = "classify"
SCORES_ONLY = "scores_only"


@dataclass(frozen=True)
class Tensor:
    """One input or output.

    Attributes:
        name: what requests and answers call it.
        dtype: ``"string"``, ``"int32"``, ``"int64"``, ``"bool"`` or ``"float32"``.
        axes: of each axis its size, or its name where the size is free.
    """

    name: str
    dtype: str
    axes: tuple[str | int, ...]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes of the axes, None where free."""
        return tuple(None if isinstance(axis, str) else axis for axis in self.axes)

    def as_json(self) -> dict[str, Any]:
        """Returns what manifests and results say about it."""
        return {"dtype": self.dtype, "axes": list(self.axes)}


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of one entry point."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Returns what manifests and results say about it."""
        return {
            "inputs": {tensor.name: tensor.as_json() for tensor in self.inputs},
            "outputs": {tensor.name: tensor.as_json() for tensor in self.outputs},
        }


TRUNCATED = Tensor("truncated", "bool", (BATCH,))
"""Whether tokens of a row were cut because there were too many."""


def saved_model_signatures(task: Any) -> Mapping[str, Signature]:
    """Returns the signatures of the SavedModel of a `Task`, by name."""
    from export.heads import head_of

    head = head_of(task)
    truncated = (TRUNCATED,) if task.truncated else ()
    texts = tuple(
        Tensor(name, "string", (BATCH,)) for name in head.text_input_names(task)
    )
    signatures = {
        SERVING_DEFAULT: Signature(texts, (*head.text_outputs(task), *truncated)),
        TOKENS: Signature(
            head.token_inputs(task, "int32"), head.saved_model_outputs(task)
        ),
    }
    if task.scores_only:
        scores = head.token_outputs(task)[0]
        signatures[SCORES_ONLY] = Signature(texts, (scores,))
    classify = head.classify_outputs(task)
    if classify:
        # TensorFlow Serving's Classify wants exactly these names.
        inputs = (Tensor("inputs", "string", (BATCH,)),)
        signatures[CLASSIFY] = Signature(inputs, classify)
    return signatures


def onnx_signature(task: Any) -> Signature:
    """Returns the inputs and outputs of the ONNX graph of a `Task`."""
    from export.heads import head_of

    head = head_of(task)
    outputs = tuple(
        Tensor(tensor.name, "int64", tensor.axes) if tensor.dtype == "int32" else tensor
        for tensor in head.token_outputs(task)
    )
    return Signature(head.token_inputs(task, "int64"), outputs)
