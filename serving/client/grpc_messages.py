"""What a gRPC client sends and how it reads answers, whoever waits for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

from . import wire_messages as wire
from .options import ClientOptions, Json
from .retry import ClientError, TemporaryError

Array = npt.NDArray[Any]

_PREDICTION = "/tensorflow.serving.PredictionService"
PREDICT_METHOD = f"{_PREDICTION}/Predict"
# Without these a client stops at answers of 4 MiB.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_TEMPORARY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING"}
_STATES[50] = "END"
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(frozen=True)
class Call:
    """One request: method, message, and the class of its answer."""

    method: str
    request: Any
    response: Any

    def named(self, model: str, address: str) -> str:
        """Returns how errors name it."""
        return f"gRPC {self.method.rsplit('/', 1)[1]} {model} at {address}"


def predict_call(
    options: ClientOptions, inputs: Mapping[str, Array], outputs: Sequence[str] = ()
) -> Call:
    """Returns the request to compute `outputs` (none: all) from arrays."""
    request = wire.PredictRequest(output_filter=outputs)
    _fill_spec(request.model_spec, options)
    for name, array in inputs.items():
        wire.write_tensor(array, request.inputs.add(key=name).value)
    return Call(PREDICT_METHOD, request, wire.PredictResponse)


def classify_call(
    options: ClientOptions, examples: Sequence[Mapping[str, Any]]
) -> Call:
    """Returns the request to classify examples: feature name to value or values."""
    request = wire.ClassificationRequest()
    _fill_spec(request.model_spec, options)
    for example in examples:
        message = request.input.example_list.examples.add()
        for name, value in example.items():
            _fill_feature(message.features.feature.add(key=name).value, name, value)
    return Call(f"{_PREDICTION}/Classify", request, wire.ClassificationResponse)


def status_call(options: ClientOptions) -> Call:
    """Returns the request for the states of all versions."""
    request = wire.GetModelStatusRequest()
    request.model_spec.name = options.model
    method = "/tensorflow.serving.ModelService/GetModelStatus"
    return Call(method, request, wire.GetModelStatusResponse)


def metadata_call(options: ClientOptions) -> Call:
    """Returns the request for the signatures."""
    request = wire.GetModelMetadataRequest(metadata_field=["signature_def"])
    _fill_spec(request.model_spec, options)
    request.model_spec.signature_name = ""
    method = f"{_PREDICTION}/GetModelMetadata"
    return Call(method, request, wire.GetModelMetadataResponse)


def arrays_of(response: Any) -> dict[str, Array]:
    """Returns the outputs of a predict answer."""
    return {entry.key: wire.read_tensor(entry.value) for entry in response.outputs}


def rows_of(outputs: Mapping[str, Array], count: int, address: str) -> list[Any]:
    """Returns outputs as REST gives them: a row for each instance.

    Raises:
        ClientError: if they are not `count` rows.
    """
    columns = {name: _plain(array) for name, array in sorted(outputs.items())}
    if not columns or any(len(column) != count for column in columns.values()):
        raise ClientError(
            f"{address}: expected outputs with {count} rows. "
            f"Received: { {name: array.shape for name, array in outputs.items()} }"
        )
    if len(columns) == 1:
        return next(iter(columns.values()))
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def classes_of(response: Any, count: int, address: str) -> list[Any]:
    """Returns for each example a list of ``[label, score]``."""
    rows = response.result.classifications
    if len(rows) != count:
        raise ClientError(
            f"{address}: expected {count} classifications. Received: {len(rows)}"
        )
    return [[[c.label, _shortest(c.score)] for c in row.classes] for row in rows]


def statuses_of(response: Any) -> list[Json]:
    """Returns the states of versions as the REST API writes them."""
    return [
        {
            "version": str(entry.version),
            "state": _STATES.get(entry.state, str(entry.state)),
            "status": {
                "error_code": _CODES.get(entry.status.error_code, "UNKNOWN"),
                "error_message": entry.status.error_message,
            },
        }
        for entry in response.model_version_status
    ]


def metadata_of(response: Any) -> Json:
    """Returns the signatures as the REST API writes them."""
    (packed,) = (e.value for e in response.metadata if e.key == "signature_def")
    signatures = wire.SignatureDefMap.FromString(packed.value)
    return {
        "model_spec": {
            "name": response.model_spec.name,
            "signature_name": response.model_spec.signature_name,
            "version": str(response.model_spec.version.value),
        },
        "metadata": {
            "signature_def": {
                "signature_def": {
                    entry.key: {
                        "inputs": _tensors(entry.value.inputs),
                        "outputs": _tensors(entry.value.outputs),
                        "method_name": entry.value.method_name,
                        "defaults": {},  # no exporter of this project writes any
                    }
                    for entry in signatures.signature_def
                }
            }
        },
    }


def failure(error: Any, what: str) -> Exception:
    """Returns the error to raise for a call that gRPC says has failed."""
    code, details = error.code(), error.details()
    reason = f"{code.name}: {details}"
    if code in _TEMPORARY:
        return TemporaryError(reason, code.name)
    return ClientError(f"{what}: {reason}", code.name)


def open_channel(channels: Any, address: str, options: ClientOptions, tls: bool) -> Any:
    """Opens a channel.

    Args:
        channels: `grpc` or, for those who await, `grpc.aio`.
        address: ``host:port``.
        options: with the files of certificates.
        tls: whether to speak TLS.
    """
    if not tls:
        return channels.insecure_channel(address, CHANNEL_OPTIONS)
    certificate, key = options.client_certificate or (None, None)
    credentials = grpc.ssl_channel_credentials(
        _bytes(options.ca), _bytes(key), _bytes(certificate)
    )
    return channels.secure_channel(address, credentials, CHANNEL_OPTIONS)


def columns_of(batch: Sequence[Any]) -> dict[str, Array]:
    """Turns rows into one array for each input.

    Raises:
        ValueError: if the rows do not have the same inputs, or differ in length.
    """
    rows = [row if isinstance(row, Mapping) else {"text": row} for row in batch]
    columns = {}
    for name in rows[0]:
        if any(row.keys() != rows[0].keys() for row in rows):
            raise ValueError(
                "all instances must have the same inputs. Received: "
                f"{sorted({tuple(row) for row in rows})}"
            )
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


def _fill_spec(spec: Any, options: ClientOptions) -> None:
    spec.name = options.model
    if options.version is not None:
        spec.version.value = options.version
    if options.label is not None:
        spec.version_label = options.label
    if options.signature is not None:
        spec.signature_name = options.signature


def _fill_feature(feature: Any, name: str, value: Any) -> None:
    values = value if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(item, (str, bytes)) for item in values):
        texts = [item.encode() if isinstance(item, str) else item for item in values]
        feature.bytes_list.value.extend(texts)
    elif all(isinstance(item, int) for item in values):
        feature.int64_list.value.extend(values)
    elif all(isinstance(item, (int, float)) for item in values):
        feature.float_list.value.extend(values)
    else:
        raise ValueError(
            f"feature {name!r} must be texts or numbers. Received: {value!r}"
        )


def _tensors(entries: Any) -> Json:
    tensors = {}
    for entry in entries:
        shape = entry.value.tensor_shape
        tensors[entry.key] = {
            "dtype": wire.dtype_name(entry.value.dtype),
            "tensor_shape": {
                "dim": [{"size": str(dim.size), "name": ""} for dim in shape.dim],
                "unknown_rank": shape.unknown_rank,
            },
            "name": entry.value.name,
        }
    return tensors


def _bytes(path: str | Path | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _shortest(score: float) -> float:
    """Returns a float32 by way of the shortest text, as the REST API gives it."""
    return float(str(np.float32(score)))


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
