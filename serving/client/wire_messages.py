"""The few messages of the gRPC API that a client needs, without TensorFlow.

The stubs of `tensorflow-serving-api` import TensorFlow for its TensorProto. These
messages have the same fields under the same numbers, so the same bytes; they live in
a pool of their own, so a process may also hold the real ones.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Array = npt.NDArray[Any]

_PACKAGE = "lvbert_tf.wire"
_Field = descriptor_pb2.FieldDescriptorProto

# Of TensorFlow's DataType, and the field of TensorProto that holds such values.
_TYPES = {
    "float32": (1, "float_val"),
    "float64": (2, "double_val"),
    "int32": (3, "int_val"),
    "uint8": (4, "int_val"),
    "int16": (5, "int_val"),
    "int8": (6, "int_val"),
    "object": (7, "string_val"),
    "int64": (9, "int64_val"),
    "bool": (10, "bool_val"),
    "uint32": (22, "uint32_val"),
    "uint64": (23, "uint64_val"),
}
_NAMES = {number: (name, field) for name, (number, field) in _TYPES.items()}

# Of each field name, number, type or message name, and whether it is repeated.
_Fields = list[tuple[str, int, int | str, bool]]


def _entry(value: str) -> _Fields:
    """Returns the fields of a map's entry: on the wire a map is a repeated pair."""
    return [("key", 1, _Field.TYPE_STRING, False), ("value", 2, value, False)]


# By name.
_MESSAGES: dict[str, _Fields] = {
    "Dim": [("size", 1, _Field.TYPE_INT64, False)],
    "TensorShapeProto": [
        ("dim", 2, "Dim", True),
        ("unknown_rank", 3, _Field.TYPE_BOOL, False),
    ],
    "TensorProto": [
        ("dtype", 1, _Field.TYPE_INT32, False),
        ("tensor_shape", 2, "TensorShapeProto", False),
        ("tensor_content", 4, _Field.TYPE_BYTES, False),
        ("float_val", 5, _Field.TYPE_FLOAT, True),
        ("double_val", 6, _Field.TYPE_DOUBLE, True),
        ("int_val", 7, _Field.TYPE_INT32, True),
        ("string_val", 8, _Field.TYPE_BYTES, True),
        ("int64_val", 10, _Field.TYPE_INT64, True),
        ("bool_val", 11, _Field.TYPE_BOOL, True),
        ("uint32_val", 16, _Field.TYPE_UINT32, True),
        ("uint64_val", 17, _Field.TYPE_UINT64, True),
    ],
    "Version": [("value", 1, _Field.TYPE_INT64, False)],
    "ModelSpec": [
        ("name", 1, _Field.TYPE_STRING, False),
        ("version", 2, "Version", False),
        ("signature_name", 3, _Field.TYPE_STRING, False),
        ("version_label", 4, _Field.TYPE_STRING, False),
    ],
    "NamedTensor": _entry("TensorProto"),
    "PredictRequest": [
        ("model_spec", 1, "ModelSpec", False),
        ("inputs", 2, "NamedTensor", True),
        ("output_filter", 3, _Field.TYPE_STRING, True),
    ],
    "PredictResponse": [
        ("outputs", 1, "NamedTensor", True),
        ("model_spec", 2, "ModelSpec", False),
    ],
    "BytesList": [("value", 1, _Field.TYPE_BYTES, True)],
    "FloatList": [("value", 1, _Field.TYPE_FLOAT, True)],
    "Int64List": [("value", 1, _Field.TYPE_INT64, True)],
    "Feature": [
        ("bytes_list", 1, "BytesList", False),
        ("float_list", 2, "FloatList", False),
        ("int64_list", 3, "Int64List", False),
    ],
    "NamedFeature": _entry("Feature"),
    "Features": [("feature", 1, "NamedFeature", True)],
    "Example": [("features", 1, "Features", False)],
    "ExampleList": [("examples", 1, "Example", True)],
    "Input": [("example_list", 1, "ExampleList", False)],
    "ClassificationRequest": [
        ("model_spec", 1, "ModelSpec", False),
        ("input", 2, "Input", False),
    ],
    "Class": [
        ("label", 1, _Field.TYPE_STRING, False),
        ("score", 2, _Field.TYPE_FLOAT, False),
    ],
    "Classifications": [("classes", 1, "Class", True)],
    "ClassificationResult": [("classifications", 1, "Classifications", True)],
    "ClassificationResponse": [("result", 1, "ClassificationResult", False)],
    "GetModelStatusRequest": [("model_spec", 1, "ModelSpec", False)],
    "StatusProto": [
        ("error_code", 1, _Field.TYPE_INT32, False),
        ("error_message", 2, _Field.TYPE_STRING, False),
    ],
    "ModelVersionStatus": [
        ("version", 1, _Field.TYPE_INT64, False),
        ("state", 2, _Field.TYPE_INT32, False),
        ("status", 3, "StatusProto", False),
    ],
    "GetModelStatusResponse": [
        ("model_version_status", 1, "ModelVersionStatus", True),
    ],
    "GetModelMetadataRequest": [
        ("model_spec", 1, "ModelSpec", False),
        ("metadata_field", 2, _Field.TYPE_STRING, True),
    ],
    "Any": [
        ("type_url", 1, _Field.TYPE_STRING, False),
        ("value", 2, _Field.TYPE_BYTES, False),
    ],
    "NamedAny": _entry("Any"),
    "GetModelMetadataResponse": [
        ("model_spec", 1, "ModelSpec", False),
        ("metadata", 2, "NamedAny", True),
    ],
    "TensorInfo": [
        ("name", 1, _Field.TYPE_STRING, False),
        ("dtype", 2, _Field.TYPE_INT32, False),
        ("tensor_shape", 3, "TensorShapeProto", False),
    ],
    "NamedTensorInfo": _entry("TensorInfo"),
    "SignatureDef": [
        ("inputs", 1, "NamedTensorInfo", True),
        ("outputs", 2, "NamedTensorInfo", True),
        ("method_name", 3, _Field.TYPE_STRING, False),
    ],
    "NamedSignatureDef": _entry("SignatureDef"),
    "SignatureDefMap": [("signature_def", 1, "NamedSignatureDef", True)],
}


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="lvbert_tf/wire.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, repeated in fields:
            field = message.field.add(name=field_name, number=number)
            field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        )
        for name in _MESSAGES
    }


_CLASSES = _build()
PredictRequest: Any = _CLASSES["PredictRequest"]
PredictResponse: Any = _CLASSES["PredictResponse"]
ClassificationRequest: Any = _CLASSES["ClassificationRequest"]
ClassificationResponse: Any = _CLASSES["ClassificationResponse"]
GetModelStatusRequest: Any = _CLASSES["GetModelStatusRequest"]
GetModelStatusResponse: Any = _CLASSES["GetModelStatusResponse"]
GetModelMetadataRequest: Any = _CLASSES["GetModelMetadataRequest"]
GetModelMetadataResponse: Any = _CLASSES["GetModelMetadataResponse"]
SignatureDefMap: Any = _CLASSES["SignatureDefMap"]


def dtype_name(number: int) -> str:
    """Returns TensorFlow's name of a type: ``DT_INT32``, ``DT_STRING``."""
    if number not in _NAMES:
        return str(number) if number else "DT_INVALID"
    name = _NAMES[number][0]
    common = {"float32": "float", "float64": "double", "object": "string"}
    return f"DT_{common.get(name, name).upper()}"


def write_tensor(array: Array, proto: Any) -> None:
    """Writes an array into a TensorProto; strings as an object array of bytes.

    Raises:
        TypeError: if the API has no field for such values.
    """
    if array.dtype.name not in _TYPES:
        raise TypeError(f"no tensor type for arrays of {array.dtype.name}")
    proto.dtype, field = _TYPES[array.dtype.name]
    getattr(proto, field).extend(array.ravel().tolist())
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)


def read_tensor(proto: Any) -> Array:
    """Reads a TensorProto; strings become an object array of bytes.

    Raises:
        ValueError: if it is of a type that this client does not know.
    """
    shape = [dim.size for dim in proto.tensor_shape.dim]
    size = int(np.prod(shape, dtype=np.int64))
    if proto.dtype not in _NAMES:
        raise ValueError(f"the answer has a tensor of the unknown type {proto.dtype}")
    name, field = _NAMES[proto.dtype]
    if proto.tensor_content:
        return np.frombuffer(proto.tensor_content, dtype=name).reshape(shape).copy()
    values = list(getattr(proto, field))
    # Equal values at the end may be left out.
    values += values[-1:] * (size - len(values))
    array = np.empty(size, dtype=name)
    array[:] = values
    return array.reshape(shape)
