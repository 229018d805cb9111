"""A gRPC client that needs neither TensorFlow nor Keras: grpcio, protobuf, numpy."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np
import numpy.typing as npt

from serving.retry import ClientError, Retry, TemporaryError, batches
from serving.wire_messages import (
    PredictRequest,
    PredictResponse,
    read_tensor,
    write_tensor,
)

Array = npt.NDArray[Any]

PREDICT_METHOD = "/tensorflow.serving.PredictionService/Predict"
# Without these a client stops at answers of 4 MiB.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_TEMPORARY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


class GrpcClient:
    """Asks a model over gRPC.

    It splits, retries and answers as `serving.client.RestClient` does; its arguments
    are the same but for the address.

    Args:
        address: ``host:port``.
        model: the model's name.
        version: its version; by default the newest.
        label: a version's label, instead of its number.
        signature: the signature to ask; by default ``serving_default``.
        max_batch: instances in one request at most.
        retry: how often and when to try again.
        timeout_s: how long a request may take with all its tries, in seconds.
    """

    def __init__(
        self,
        address: str,
        model: str,
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str | None = None,
        max_batch: int = 32,
        retry: Retry = Retry(),  # noqa: B008  it is immutable
        timeout_s: float = 30.0,
    ) -> None:
        if version is not None and label is not None:
            raise ValueError(
                f"version and label exclude each other. Received: {version=}, {label=}"
            )
        self._address = address
        self._model = model
        self._version = version
        self._label = label
        self._signature = signature
        self._max_batch = max_batch
        self._retry = retry
        self._timeout_s = timeout_s
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._predict = self._channel.unary_unary(
            PREDICT_METHOD,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=PredictResponse.FromString,
        )

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance, in order.

        Args:
            instances: texts (input ``text``), or objects from input name to text,
                number, or list of numbers, all of one length; numbers are sent as
                int32 or float32.

        Returns:
            For each instance an object from output name to value, or the bare value
            where the signature has one output. Strings are decoded as UTF-8.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        results: list[Any] = []
        for batch in batches(instances, self._max_batch):
            outputs = self.predict_arrays(_columns(batch))
            columns = {name: _plain(array) for name, array in sorted(outputs.items())}
            if any(len(column) != len(batch) for column in columns.values()):
                raise ClientError(
                    f"{self._address}: expected outputs with {len(batch)} rows. "
                    f"Received: { {k: a.shape for k, a in outputs.items()} }"
                )
            if len(columns) == 1:
                results.extend(next(iter(columns.values())))
            else:
                rows = zip(*columns.values(), strict=True)
                results.extend(dict(zip(columns, row, strict=True)) for row in rows)
        return results

    def predict_arrays(
        self, inputs: Mapping[str, Array], outputs: Sequence[str] = ()
    ) -> dict[str, Array]:
        """Sends arrays in one request and returns arrays.

        Args:
            inputs: an array for each input; strings as object arrays of bytes.
            outputs: the outputs to compute, by default all.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        request = self.request(inputs, outputs)
        what = f"gRPC Predict {self._model} at {self._address}"
        response = self._retry.run(
            lambda left_s: self._once(request, what, left_s), what, self._timeout_s
        )
        return {entry.key: read_tensor(entry.value) for entry in response.outputs}

    def request(self, inputs: Mapping[str, Array], outputs: Sequence[str] = ()) -> Any:
        """Returns the message that `predict_arrays` sends."""
        request = PredictRequest(output_filter=outputs)
        request.model_spec.name = self._model
        if self._version is not None:
            request.model_spec.version.value = self._version
        if self._label is not None:
            request.model_spec.version_label = self._label
        if self._signature is not None:
            request.model_spec.signature_name = self._signature
        for name, array in inputs.items():
            write_tensor(array, request.inputs.add(key=name).value)
        return request

    def close(self) -> None:
        """Closes the connections."""
        self._channel.close()

    def __enter__(self) -> Self:
        """Returns the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connections."""
        self.close()

    def _once(self, request: Any, what: str, timeout_s: float) -> Any:
        try:
            return self._predict(request, timeout=timeout_s)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            reason = f"{code.name}: {details}"
            if code in _TEMPORARY:
                raise TemporaryError(reason, code.name) from error
            raise ClientError(f"{what}: {reason}", code.name) from error


def _columns(batch: Sequence[Any]) -> dict[str, Array]:
    """Turns rows into one array for each input."""
    rows = [row if isinstance(row, Mapping) else {"text": row} for row in batch]
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if isinstance(values[0], (str, bytes)):
            array = np.empty(len(values), dtype=object)
            array[:] = [
                value.encode() if isinstance(value, str) else value for value in values
            ]
        else:
            array = np.array(values)
            # What signatures take as a rule; `predict_arrays` sends any type.
            narrower = {"int64": np.int32, "float64": np.float32}.get(array.dtype.name)
            array = array if narrower is None else array.astype(narrower)
        columns[name] = array
    return columns


def _plain(array: Array) -> list[Any]:
    """Returns an output as lists of Python values."""
    if array.dtype == object:
        decoded = np.empty(array.size, dtype=object)
        decoded[:] = [value.decode(errors="replace") for value in array.ravel()]
        array = decoded.reshape(array.shape)
    elif array.dtype == np.float32:
        # By way of the shortest text, as the REST API gives it.
        array = array.astype(np.str_).astype(np.float64)
    values: list[Any] = array.tolist()
    return values
