"""Arrays to TensorProto and back, as the gRPC API carries them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from serving.server.limits import Limits
from serving.server.status import invalid_argument

Array = npt.NDArray[Any]

# The field that holds the values of a type. TF Serving fills it, not
# `tensor_content`, and clients in other languages read it directly.
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int8": "int_val",
    "int16": "int_val",
    "int32": "int_val",
    "uint8": "int_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "bool": "bool_val",
}


def to_array(name: str, proto: tensor_pb2.TensorProto, limits: Limits) -> Array:
    """Reads a tensor of a request.

    Args:
        name: the input's name, for errors.
        proto: the tensor.
        limits: what the array may take at most. A proto may claim any shape and
            give one value for all of it, so its own size says nothing.

    Returns:
        The array; strings as an object array of bytes.

    Raises:
        ServingError: INVALID_ARGUMENT for a tensor that is not well formed.
    """
    if proto.tensor_shape.unknown_rank:
        raise invalid_argument(f"input {name}: the tensor has no shape")
    elements = 1
    for dim in proto.tensor_shape.dim:
        if dim.size < 0:
            raise invalid_argument(f"input {name}: the shape has a negative size")
        elements *= dim.size
    try:
        dtype = tf.as_dtype(proto.dtype).name
        limits.check_shape(name, tuple(d.size for d in proto.tensor_shape.dim), dtype)
        if dtype == "string":
            return _strings(name, proto, elements, limits)
        array: Array = tf.make_ndarray(proto)
    except (
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise invalid_argument(f"input {name}: not a valid tensor: {error}") from None
    return array


def _strings(
    name: str, proto: tensor_pb2.TensorProto, elements: int, limits: Limits
) -> Array:
    values = list(proto.string_val)
    # Upstream, too, repeats the last value where there are fewer than the shape says.
    if len(values) > elements or (elements and not values):
        raise invalid_argument(
            f"input {name}: {len(values)} values for a shape of {elements} elements"
        )
    if values:
        repeated = len(values[-1]) * (elements - len(values))
        limits.check_text(name, sum(map(len, values)) + repeated)
    array = np.empty(elements, dtype=object)
    array[:] = values + values[-1:] * (elements - len(values))
    return array.reshape([dim.size for dim in proto.tensor_shape.dim])


def fill_proto(array: Array, proto: tensor_pb2.TensorProto) -> None:
    """Writes an output of a model into a tensor of a response."""
    field = _FIELDS.get(array.dtype.name)
    if array.dtype == object:
        proto.dtype = tf.string.as_datatype_enum
        proto.string_val.extend(array.ravel().tolist())
    elif field is None:
        proto.CopyFrom(tf.make_tensor_proto(array))
        return
    else:
        proto.dtype = tf.as_dtype(array.dtype).as_datatype_enum
        getattr(proto, field).extend(array.ravel().tolist())
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
