"""Names, types and axes of every tensor that an exported classifier takes or gives.

One table for the SavedModel's signatures, the ONNX graph, the manifests and the checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BATCH = "batch"
SEQUENCE = "sequence"

TEXT_INPUTS = ("text", "text_pair")
TOKEN_INPUTS = ("input_ids", "segment_ids", "padding_mask")
KERAS_INPUTS = ("token_ids", "segment_ids", "padding_mask")
"""The backbone's names for `TOKEN_INPUTS`, in the same order."""

SERVING_DEFAULT = "serving_default"
TOKENS = "tokens"
CLASSIFY = "classify"


@dataclass(frozen=True)
class Tensor:
    """One input or output.

    Attributes:
        name: what requests and answers call it.
        dtype: ``"string"``, ``"int32"``, ``"int64"`` or ``"float32"``.
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


def saved_model_signatures(
    num_classes: int, pairs: bool, regression: bool = False
) -> Mapping[str, Signature]:
    """Returns the signatures of the SavedModel by name.

    Args:
        num_classes: outputs C of the classifier.
        pairs: whether it takes two texts.
        regression: whether the output is a value, which has no label.
    """
    scores = Tensor("scores", "float32", (BATCH, num_classes))
    label = Tensor("label", "string", (BATCH,))
    classes = Tensor("classes", "string", (BATCH, num_classes))
    answer = (scores,) if regression else (scores, label)
    texts = TEXT_INPUTS if pairs else TEXT_INPUTS[:1]
    return {
        SERVING_DEFAULT: Signature(
            tuple(Tensor(name, "string", (BATCH,)) for name in texts), answer
        ),
        TOKENS: Signature(
            tuple(Tensor(name, "int32", (BATCH, SEQUENCE)) for name in TOKEN_INPUTS),
            answer,
        ),
        # TensorFlow Serving's Classify wants exactly these names.
        CLASSIFY: Signature(
            (Tensor("inputs", "string", (BATCH,)),),
            (scores,) if regression else (classes, scores),
        ),
    }


def onnx_signature(num_classes: int) -> Signature:
    """Returns the inputs and outputs of the ONNX graph for C = `num_classes`."""
    return Signature(
        tuple(Tensor(name, "int64", (BATCH, SEQUENCE)) for name in TOKEN_INPUTS),
        (Tensor("scores", "float32", (BATCH, num_classes)),),
    )
