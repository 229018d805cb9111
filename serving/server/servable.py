"""One version of one model, loaded the way TensorFlow Serving loads it."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from common.saved_model_session import SavedModelError, SavedModelSession
from serving.server.gate import Gate
from serving.server.limits import work
from serving.server.status import Code, ServingError, invalid_argument

Array = npt.NDArray[Any]

DEFAULT_SIGNATURE = "serving_default"


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a signature.

    Attributes:
        tensor: the tensor's name in the graph.
        dtype: its type as TensorFlow names it (``"string"``, ``"int32"``).
        shape: its dimensions, None where free; None where even the rank is free.
    """

    tensor: str
    dtype: str
    shape: tuple[int | None, ...] | None

    def check(self, name: str, array: Array) -> None:
        """Checks what a request feeds.

        The C++ session behind the stock server does not check shapes, and tokenizer
        ops crash the process where a scalar reaches them: so this is no formality.

        Raises:
            ServingError: INVALID_ARGUMENT, naming the input.
        """
        dtype = "string" if array.dtype == object else tf.as_dtype(array.dtype).name
        if _NUMPY_NAMES.get(self.dtype, self.dtype) != dtype:
            raise invalid_argument(
                f"input {name}: expected type {self.dtype}. Received: {dtype}"
            )
        if self.shape is None:
            return
        if len(self.shape) != array.ndim or any(
            expected not in (None, size)
            for expected, size in zip(self.shape, array.shape, strict=True)
        ):
            expected = ["?" if size is None else size for size in self.shape]
            raise invalid_argument(
                f"input {name}: expected shape [{','.join(map(str, expected))}]. "
                f"Received: [{','.join(map(str, array.shape))}]"
            )


# How the signature's type names differ from those of NumPy arrays.
_NUMPY_NAMES = {"float": "float32", "double": "float64", "half": "float16"}
_SIGNATURE_NAMES = {numpy: name for name, numpy in _NUMPY_NAMES.items()}


@dataclass(frozen=True)
class Signature:
    """One entry point of a SavedModel: its inputs and outputs, sorted by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


class Servable:
    """A SavedModel in a session of its own.

    Args:
        path: the version's folder.
        inter_op_threads: operations run at a time; 0: as many as there are cores.
        intra_op_threads: threads for one operation; 0: as many as there are cores.
        gate: lets so much be computed at a time; None: anything.

    Raises:
        ServingError: if the model cannot be loaded; the message names the folder.
    """

    def __init__(
        self,
        path: Path,
        inter_op_threads: int = 0,
        intra_op_threads: int = 0,
        gate: Gate | None = None,
    ) -> None:
        self.path = path
        self._gate = gate
        try:
            self._session = SavedModelSession(path, inter_op_threads, intra_op_threads)
        except SavedModelError as error:
            raise ServingError(Code(error.code), str(error)) from error
        self.meta_graph = self._session.meta_graph
        self.signatures = {
            name: Signature(_specs(definition.inputs), _specs(definition.outputs))
            for name, definition in self._session.definitions.items()
        }

    def run(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Computes outputs of a signature.

        Args:
            signature: one of `signatures`.
            inputs: an array for each of its inputs; strings as object arrays of bytes.
            outputs: names of the outputs to compute, by default all.

        Returns:
            The outputs by name.

        Raises:
            ServingError: if an input has the wrong type or shape, or the graph fails.
        """
        names = list(signature.outputs) if outputs is None else list(outputs)
        for name, spec in signature.inputs.items():
            spec.check(name, inputs[name])
        try:
            with self._gate.admit(work(inputs)) if self._gate else nullcontext():
                values = self._session.compute(
                    [spec.tensor for spec in signature.inputs.values()],
                    [inputs[name] for name in signature.inputs],
                    [signature.outputs[name].tensor for name in names],
                )
        except tf.errors.OpError as error:
            raise ServingError(Code(error.error_code), error.message) from error
        except UnicodeDecodeError as error:
            # The graph's own error quotes the request, whose bytes are no UTF-8.
            text = bytes(error.object).decode(errors="replace")
            raise invalid_argument(text) from error
        return dict(zip(names, values, strict=True))

    def close(self) -> None:
        """Frees the model; `run` must not be called again."""
        self._session.close()


def _specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    specs = {}
    for name, info in sorted(tensors.items()):
        dtype = tf.as_dtype(info.dtype).name
        shape = info.tensor_shape
        specs[name] = TensorSpec(
            info.name,
            _SIGNATURE_NAMES.get(dtype, dtype),
            None
            if shape.unknown_rank
            else tuple(dim.size if dim.size >= 0 else None for dim in shape.dim),
        )
    return specs
