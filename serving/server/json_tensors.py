"""Turns the ``instances`` or ``inputs`` of a predict request into arrays.

The rules and messages are TF Serving's. Regular requests take a fast way, a level of
nesting at a time; what is irregular is walked value by value to say what is wrong.
"""

import base64
import binascii
from collections.abc import Mapping
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from serving.server.json_parser import encode_text, show
from serving.server.status import Code, ServingError, invalid_argument

Array = npt.NDArray[Any]

# NumPy's limit; TensorFlow's own is 254, and no model comes near either.
_MAX_RANK = 32
_INTEGER_RANGES: dict[str, np.iinfo[Any]] = {
    # int8, int16 and uint8 travel as int32: their own range is not checked.
    "int8": np.iinfo(np.int32),
    "int16": np.iinfo(np.int32),
    "uint8": np.iinfo(np.int32),
    "int32": np.iinfo(np.int32),
    "int64": np.iinfo(np.int64),
    "uint32": np.iinfo(np.uint32),
    "uint64": np.iinfo(np.uint64),
}
_FLOATS: dict[str, type[np.floating[Any]]] = {"float": np.float32, "double": np.float64}


def predict_inputs(
    document: Mapping[str, Any], dtypes: Mapping[str, str]
) -> tuple[bool, dict[str, Array]]:
    """Reads the inputs of a predict request.

    Args:
        document: the request's top-level object.
        dtypes: for each input of the signature the name of its type as TensorFlow
            writes it (``"string"``, ``"int32"``, ``"float"``).

    Returns:
        Whether the request is in row format (``instances``), and the inputs. String
        inputs are object arrays of bytes.

    Raises:
        ServingError: INVALID_ARGUMENT for a malformed request, UNIMPLEMENTED for an
            input type that JSON cannot carry.
    """
    has_rows, has_columns = "instances" in document, "inputs" in document
    if has_rows and has_columns:
        raise invalid_argument(
            f"JSON Value: {show(document)} Not formatted correctly expecting only one "
            "of 'inputs' or 'instances' keys to exist "
        )
    if has_rows:
        instances = document["instances"]
        if not isinstance(instances, list):
            raise invalid_argument(
                f"JSON Value: {show(document)} Excepting 'instances' to be an "
                "list/array"
            )
        if not instances:
            raise invalid_argument(
                f"JSON Value: {show(document)} No values in 'instances' array"
            )
        return True, _from_rows(instances, dtypes)
    if has_columns:
        return False, _from_columns(document["inputs"], dtypes)
    raise invalid_argument("Missing 'inputs' or 'instances' key")


def is_base64_object(value: Any) -> bool:
    """Whether `value` is ``{"b64": "..."}`` with nothing else in it."""
    return isinstance(value, dict) and len(value) == 1 and type(value.get("b64")) is str


def decode_base64(value: Any) -> bytes:
    """Returns the bytes of a ``{"b64": "..."}`` object."""
    if not is_base64_object(value):
        raise invalid_argument(
            f"JSON Value: {show(value)} not formatted correctly for base64 data"
        )
    text = value["b64"].rstrip("=")
    try:
        # Padding is optional, as it is upstream; its length follows from the text.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument("Unable to base64 decode") from None


def _from_rows(instances: list[Any], dtypes: Mapping[str, str]) -> dict[str, Array]:
    named = isinstance(instances[0], dict) and not is_base64_object(instances[0])
    if not named and len(dtypes) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    for position, element in enumerate(instances):
        is_named = isinstance(element, dict) and not is_base64_object(element)
        if is_named != named:
            expected, received = "value/list", "object"
            if named:
                expected, received = "object", "list"
            raise invalid_argument(
                f"Expecting {expected} but got {received} at item {position} of "
                "input list"
            )
    if not named:
        name = next(iter(dtypes))
        array = _regular(instances, dtypes[name])
        if array is None:
            _explain_rows(instances, dtypes, lambda element: {name: element}, "")
        return {name: array}
    columns: dict[str, Array] = {}
    if all(element.keys() == dtypes.keys() for element in instances):
        for name, dtype in dtypes.items():
            column = _regular([element[name] for element in instances], dtype)
            if column is None:
                break
            columns[name] = column
    if columns.keys() != dtypes.keys():
        _explain_rows(instances, dtypes, lambda element: element, " key: {}")
    return columns


def _explain_rows(
    instances: list[Any], dtypes: Mapping[str, str], named_items: Any, where: str
) -> NoReturn:
    """Walks `instances` as TF Serving does, to raise its error for the first fault."""
    shapes: dict[str, tuple[int, ...]] = {}
    for position, element in enumerate(instances):
        items = named_items(element)
        for name, value in items.items():
            try:
                if name not in dtypes:
                    raise invalid_argument(
                        f"JSON object: does not have named input: {name}"
                    )
                shape = _walk(value, dtypes[name])
                expected = shapes.setdefault(name, shape)
                size, expected_size = int(np.prod(shape)), int(np.prod(expected))
                if size != expected_size:
                    raise invalid_argument(
                        f"Expecting tensor size: {expected_size} but got: {size}"
                    )
                if shape != expected:
                    raise invalid_argument(
                        f"Expecting shape {_show_shape(expected)} but got: "
                        f"{_show_shape(shape)}"
                    )
            except ServingError as error:
                raise ServingError(
                    error.code,
                    f"Failed to process element: {position}{where.format(name)} of "
                    f"'instances' list. Error: {error.code.name}: {error.message}",
                ) from None
        if items.keys() != dtypes.keys():
            raise invalid_argument(
                f"Failed to process element: {position} of 'instances' list. JSON "
                f"object: {show(element)} keys must be equal to: "
                + ",".join(sorted(dtypes))
            )
    raise ServingError(Code.INTERNAL, "Cannot read the 'instances' list")


def _from_columns(value: Any, dtypes: Mapping[str, str]) -> dict[str, Array]:
    if not isinstance(value, dict) or is_base64_object(value):
        if len(dtypes) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        value = {next(iter(dtypes)): value}
    arrays = {}
    for name, dtype in sorted(dtypes.items()):
        if name not in value:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
        array = _regular(value[name], dtype)
        if array is None:
            _walk(value[name], dtype)
            raise ServingError(Code.INTERNAL, f"Cannot read the input {name}")
        arrays[name] = array
    return arrays


def _regular(value: Any, dtype: str) -> Array | None:
    """Returns `value` as an array, or None if anything is irregular about it."""
    shape: list[int] = []
    leaves = [value]
    while leaves and isinstance(leaves[0], list):
        size = len(leaves[0])
        if not all(isinstance(item, list) and len(item) == size for item in leaves):
            return None
        leaves = list(chain.from_iterable(leaves))
        shape.append(size)
        if len(shape) > _MAX_RANK:
            return None
    types = set(map(type, leaves))
    try:
        if dtype == "string":
            if not types <= {str, dict}:
                return None
            array = np.empty(len(leaves), dtype=object)
            array[:] = [
                encode_text(leaf) if type(leaf) is str else decode_base64(leaf)
                for leaf in leaves
            ]
        elif dtype in _FLOATS:
            if not types <= {int, float} or not all(map(_is_lossless[dtype], leaves)):
                return None
            array = np.array(leaves, dtype=_FLOATS[dtype])
        elif dtype == "bool":
            if not types <= {bool}:
                return None
            array = np.array(leaves, dtype=bool)
        elif dtype in _INTEGER_RANGES:
            limits = _INTEGER_RANGES[dtype]
            if not types <= {int} or (
                leaves and not limits.min <= min(leaves) <= max(leaves) <= limits.max
            ):
                return None
            array = np.array(leaves, dtype=limits.dtype).astype(dtype)
        else:
            return None
    except ServingError:
        return None
    return array.reshape(shape)


def _is_lossless_double(number: float) -> bool:
    return type(number) is float or abs(number) <= 2**53 - 1 or abs(number) > 2**64


def _is_lossless_float(number: float) -> bool:
    if type(number) is float:
        # True for NaN and the infinities, which a float32 holds.
        return not _MAX_FLOAT < abs(number) < float("inf")
    if abs(number) >= 2**64:  # too large for an integer: it was read as a double
        return abs(number) <= _MAX_FLOAT
    return abs(number) <= 2**24 - 1


_MAX_FLOAT = float(np.finfo(np.float32).max)
_is_lossless = {"float": _is_lossless_float, "double": _is_lossless_double}


def _walk(value: Any, dtype: str) -> tuple[int, ...]:
    """Checks a value element by element; returns its shape.

    Raises:
        ServingError: what TF Serving says about the first fault.
    """
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        if len(shape) > _MAX_RANK:
            raise invalid_argument(
                f"Lists are nested more than {_MAX_RANK} deep, too deep for a tensor"
            )
        if not first:
            break
        first = first[0]
    _walk_level(value, dtype, 0, shape)
    return tuple(shape)


def _walk_level(value: Any, dtype: str, level: int, shape: list[int]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {show(value)} found at incorrect level: {level + 1} in "
                f"the JSON DOM. Expected at level: {len(shape)}"
            )
        _check_leaf(value, dtype)
        return
    if level >= len(shape):
        raise invalid_argument(
            f"Encountered list at unexpected level: {level} expected < {len(shape)}"
        )
    if len(value) != shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for item in value:
        _walk_level(item, dtype, level + 1, shape)


def _check_leaf(value: Any, dtype: str) -> None:
    kind = type(value)
    if dtype == "string":
        if kind is dict:
            decode_base64(value)
            return
        good = kind is str
    elif dtype in _FLOATS:
        good = kind in (int, float)
        if good and not _is_lossless[dtype](value):
            raise invalid_argument(
                f"Cannot convert JSON value: {show(value)} to {dtype} without loss of "
                "precision."
            )
    elif dtype == "bool":
        good = kind is bool
    elif dtype in _INTEGER_RANGES:
        limits = _INTEGER_RANGES[dtype]
        good = kind is int and limits.min <= value <= limits.max
    else:
        raise ServingError(
            Code.UNIMPLEMENTED,
            f"Conversion of JSON Value: {show(value)} to type: {dtype}",
        )
    if not good:
        raise invalid_argument(
            f"JSON Value: {show(value)} Type: {json_type(value)} is not of expected "
            f"type: {dtype}"
        )


def json_type(value: Any) -> str:
    """Returns the name of a JSON value's type as TF Serving's messages write it."""
    if isinstance(value, bool):
        return str(value)
    names = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
    return names.get(type(value), "Number")


def _show_shape(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
