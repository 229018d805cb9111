"""Turns the ``examples`` of a classify or regress request into serialized Examples."""

from collections.abc import Mapping
from typing import Any

from tensorflow.core.example import example_pb2, feature_pb2

from serving.server.json_parser import encode_text, show
from serving.server.json_tensors import decode_base64, is_base64_object, json_type
from serving.server.limits import Limits
from serving.server.status import invalid_argument

_MAX_FLOAT = 3.4028234663852886e38


def serialized_examples(document: Mapping[str, Any], limits: Limits) -> list[bytes]:
    """Reads a classify or regress request.

    Args:
        document: the request's top-level object: ``examples``, a list of objects from
            feature name to a value or list of values, and optionally ``context``, an
            object whose features every example gets.
        limits: how many examples, and how many bytes of them, there may be.

    Returns:
        One serialized ``tf.train.Example`` for each example.

    Raises:
        ServingError: INVALID_ARGUMENT for a malformed request.
    """
    context = b""
    if "context" in document:
        context = _example(document["context"])
    if "examples" not in document:
        raise invalid_argument(
            f"JSON Value: {show(document)} When method is classify, key 'examples' is "
            "expected and was not found"
        )
    examples = document["examples"]
    if not isinstance(examples, list):
        raise invalid_argument(
            f"JSON Value: {show(document)} Expecting 'examples' value to be an "
            "list/array"
        )
    if not examples:
        raise invalid_argument(
            f"JSON Value: {show(document)} 'examples' value is an empty array"
        )
    limits.check_examples(len(examples), len(context))
    # Serialized messages merge by concatenation; the later one wins, as upstream.
    return [context + _example(example) for example in examples]


def _example(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise invalid_argument(
            f"Example must be JSON object but got JSON {json_type(value)}"
        )
    example = example_pb2.Example()
    for name, content in value.items():
        feature = example.features.feature[name.encode(errors="replace").decode()]
        for item in content if isinstance(content, list) else [content]:
            _add(item, name, feature)
    serialized: bytes = example.SerializeToString()
    return serialized


def _add(item: Any, name: str, feature: feature_pb2.Feature) -> None:
    if isinstance(item, str) or is_base64_object(item):
        kind = "bytes_list"
        item = encode_text(item) if isinstance(item, str) else decode_base64(item)
    elif isinstance(item, (bool, int)):
        kind = "int64_list"
        if not -(2**63) <= item < 2**63:
            raise invalid_argument(
                f"Feature: {name} has uint64 element. Only int64 is supported."
            )
    elif isinstance(item, float):
        kind = "float_list"
        if _MAX_FLOAT < abs(item) < float("inf"):
            raise invalid_argument(
                f"Cannot convert JSON value: {item} to float without loss of precision."
            )
    else:
        raise invalid_argument(
            f"Feature: {name} has element with unexpected JSON type: {json_type(item)}"
        )
    present = feature.WhichOneof("kind")
    if present not in (None, kind):
        raise invalid_argument(
            f"Unexpected element type in feature: {name} expecting type: "
            f"{present.removesuffix('_list')}"
        )
    getattr(feature, kind).value.append(item)
