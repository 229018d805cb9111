"""Compares the signatures that a SavedModel has with those of the table."""

from collections.abc import Iterable, Mapping
from typing import Any

from common.command_line import CommandError
from export.signatures import Signature, Tensor


def check_signatures(
    definitions: Mapping[str, Any], table: Mapping[str, Signature]
) -> None:
    """Compares names, types and shapes with the table.

    Args:
        definitions: a loaded version's ``SignatureDef`` messages by name.
        table: what they must be.

    Raises:
        CommandError: if they differ.
    """
    expected = {
        name: (_described(signature.inputs), _described(signature.outputs))
        for name, signature in table.items()
    }
    received = {
        name: (_stored(definition.inputs), _stored(definition.outputs))
        for name, definition in definitions.items()
    }
    if received != expected:
        raise CommandError(
            f"the SavedModel's signatures: expected {expected}. Received: {received}"
        )


def _described(
    tensors: Iterable[Tensor],
) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    return {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors}


def _stored(
    tensors: Mapping[str, Any],
) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    import tensorflow as tf

    return {
        name: (
            tf.as_dtype(info.dtype).name,
            tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim),
        )
        for name, info in tensors.items()
    }
