"""What a request does to a model: the part that REST and gRPC share."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.server.batching import BatchScheduler
from serving.server.limits import Limits
from serving.server.repository import ModelRepository
from serving.server.servable import DEFAULT_SIGNATURE, Servable, Signature
from serving.server.status import Code, ServingError, invalid_argument

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ModelSpec:
    """Which model, version and signature a request means."""

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""

    @property
    def signature_name(self) -> str:
        """The signature's name, the default one where the request names none."""
        return self.signature or DEFAULT_SIGNATURE


class Model:
    """A version that is held for one request.

    Attributes:
        servable: the loaded version.
        version: its number.
    """

    def __init__(
        self,
        servable: Servable,
        version: int,
        scheduler: BatchScheduler | None,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self.servable = servable
        self.version = version
        self._scheduler = scheduler

    def run(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Computes outputs of a signature, in a batch with others if that is on."""
        names = list(signature.outputs) if outputs is None else list(outputs)
        self._limits.check(inputs)
        shapes = {name: signature.outputs[name].shape for name in names}
        self._limits.check_outputs(inputs, shapes)
        if self._scheduler is None:
            return self.servable.run(signature, inputs, names)
        return self._scheduler.run(self.servable, signature, inputs, names)

    def classify(
        self, signature_name: str, examples: Sequence[bytes]
    ) -> tuple[Array | None, Array | None]:
        """Classifies serialized Examples.

        Returns:
            Labels, an object array of bytes (B, C), and scores, float32 (B, C);
            either is None where the signature lacks it.

        Raises:
            ServingError: if the signature is no classification signature.
        """
        signature = self._example_signature(signature_name, "classification", (1, 2))
        names = [name for name in ("classes", "scores") if name in signature.outputs]
        if not names:
            raise ServingError(
                Code.FAILED_PRECONDITION,
                'Expected classification signature outputs to contain at least one of "'
                'classes" or "scores". Received: ' + ", ".join(signature.outputs),
            )
        outputs = self.run(signature, {"inputs": _bytes_array(examples)}, names)
        for name, dtype in (("classes", object), ("scores", np.float32)):
            array = outputs.get(name)
            if array is None:
                continue
            if array.ndim != 2 or len(array) != len(examples) or array.dtype != dtype:
                raise invalid_argument(
                    f"Expected {name} as {np.dtype(dtype).name} of shape [batch_size "
                    f"num_classes] but got {array.dtype.name} {list(array.shape)}"
                )
        return outputs.get("classes"), outputs.get("scores")

    def regress(self, signature_name: str, examples: Sequence[bytes]) -> Array:
        """Regresses serialized Examples; returns float32 (B,).

        Raises:
            ServingError: if the signature is no regression signature.
        """
        signature = self._example_signature(signature_name, "regression", (1,))
        if "outputs" not in signature.outputs:
            raise ServingError(
                Code.FAILED_PRECONDITION,
                "Expected one output Tensor named 'outputs' in a regression signature. "
                "Received: " + ", ".join(signature.outputs),
            )
        values = self.run(signature, {"inputs": _bytes_array(examples)})["outputs"]
        if values.dtype != np.float32 or values.shape not in (
            (len(examples),),
            (len(examples), 1),
        ):
            raise invalid_argument(
                "Expected output Tensor shape to be either [batch_size] or "
                f"[batch_size, 1] but got {values.dtype.name} {list(values.shape)}"
            )
        return values.reshape(-1)

    def _example_signature(
        self, name: str, kind: str, output_counts: Sequence[int]
    ) -> Signature:
        """Returns a signature for Examples.

        Exports of TensorFlow 2 all call themselves predict signatures, so its tensors
        alone tell what a signature is for. What is looked at in which order, and the
        codes, are those of the stock server (``classifier.cc``, ``regressor.cc``).
        """
        name = name or DEFAULT_SIGNATURE
        signature = self.servable.signatures.get(name)
        if signature is None:
            raise invalid_argument(f"No signature was found with the name: {name}")
        if len(signature.inputs) != 1:
            raise invalid_argument(
                f"Expected one input Tensor in a {kind} signature. "
                f"Received: {name} with {', '.join(signature.inputs) or 'none'}"
            )
        if len(signature.outputs) not in output_counts:
            counts = " or ".join(map(str, output_counts))
            raise invalid_argument(
                f"Expected {counts} output Tensors in a {kind} signature. Received: "
                f"{name} with {len(signature.outputs)}: {', '.join(signature.outputs)}"
            )
        if "inputs" not in signature.inputs:
            raise ServingError(
                Code.FAILED_PRECONDITION,
                f"No {kind} inputs found in signature {name}: expected an input named "
                f"'inputs'. Received: {', '.join(signature.inputs)}",
            )
        return signature


class Inference:
    """Finds the model that a request means, and runs it.

    Args:
        repository: the loaded models.
        scheduler: puts requests together; None: each is computed alone.
        limits: what a request may cost.
    """

    def __init__(
        self,
        repository: ModelRepository,
        scheduler: BatchScheduler | None,
        limits: Limits,
    ) -> None:
        self.repository = repository
        self.limits = limits
        self._scheduler = scheduler

    @contextlib.contextmanager
    def model(self, spec: ModelSpec) -> Iterator[Model]:
        """Holds the version that `spec` means while a request is computed."""
        with self.repository.lease(spec.name, spec.version, spec.label) as (
            servable,
            version,
        ):
            yield Model(servable, version, self._scheduler, self.limits)


def _bytes_array(values: Sequence[bytes]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array
