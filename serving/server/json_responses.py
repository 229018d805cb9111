"""Writes the answers of the REST API."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.server.status import Code, ServingError, invalid_argument

Array = npt.NDArray[Any]


def to_json(value: Any) -> bytes:
    """Serialises an answer.

    NaN and infinities are written as ``NaN``, ``Infinity``, ``-Infinity``, which is
    TF Serving's way and not strict JSON. Bytes of a string that are not UTF-8 are
    passed on as they are.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text.encode(errors="surrogateescape")


def predict_response(outputs: Mapping[str, Array], row_format: bool) -> bytes:
    """Returns the answer to a predict request.

    Args:
        outputs: the signature's outputs by name.
        row_format: whether the request came with ``instances``.

    Raises:
        ServingError: INVALID_ARGUMENT, if a row-format answer is impossible because
            outputs have no or different batch dimensions.
    """
    if not row_format:
        values = {name: _to_lists(name, array) for name, array in outputs.items()}
        return to_json({"outputs": values if len(values) > 1 else _only(values)})
    batch_size: int | None = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if batch_size is not None and batch_size != len(array):
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} "
                f"expecting: {batch_size}"
            )
        batch_size = len(array)
    columns = {name: _to_lists(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        return to_json({"predictions": _only(columns)})
    rows = zip(*columns.values(), strict=True)
    return to_json(
        {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}
    )


def classify_response(classes: Array | None, scores: Array | None) -> bytes:
    """Returns the answer to a classify request.

    Args:
        classes: labels, object array of bytes (B, C), or None.
        scores: float32 (B, C), or None; at least one of the two is given.
    """
    given = classes if classes is not None else scores
    if given is None or given.size == 0:
        raise invalid_argument("Cannot convert empty ClassificationResults to JSON")
    labels: Any = np.full(given.shape, "").tolist()
    values: Any = np.zeros(given.shape).tolist()
    if classes is not None:
        labels = _to_lists("classes", classes)
    if scores is not None:
        values = _to_lists("scores", scores)
    return to_json(
        {
            "results": [
                list(map(list, zip(label_row, value_row, strict=True)))
                for label_row, value_row in zip(labels, values, strict=True)
            ]
        }
    )


def regress_response(values: Array) -> bytes:
    """Returns the answer to a regress request; `values` is float32 (B,)."""
    return to_json({"results": _to_lists("outputs", values)})


def error_response(message: str) -> bytes:
    """Returns the answer to a request that failed."""
    return to_json({"error": message})


def _only(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values()))


def _to_lists(name: str, array: Array) -> Any:
    """Returns an output as nested lists of what `json` can write."""
    if array.dtype == object:
        if name.endswith("_bytes"):
            return _map(array, lambda raw: {"b64": base64.b64encode(raw).decode()})
        return _map(array, lambda raw: raw.decode(errors="surrogateescape"))
    if array.dtype.kind in "iub":
        return array.tolist()
    if array.dtype.kind == "f" and array.dtype.itemsize < np.dtype(np.float64).itemsize:
        # By way of its shortest text, so that 0.1 does not become 0.10000000149. A row
        # at a time: each text takes 128 bytes.
        if array.ndim > 1:
            return [_to_lists(name, row) for row in array]
        return array.astype(np.str_).astype(np.float64).tolist()
    if array.dtype == np.float64:
        return array.tolist()
    raise ServingError(
        Code.INVALID_ARGUMENT,
        f"Failed to write JSON value for tensor type: {array.dtype.name}",
    )


def _map(array: Array, convert: Any) -> Any:
    result = np.empty(array.size, dtype=object)
    result[:] = [convert(item) for item in array.ravel()]
    return result.reshape(array.shape).tolist()
