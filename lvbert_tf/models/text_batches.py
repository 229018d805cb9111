"""Batches of strings, as (B,), from the forms in which people hold them."""

from typing import Any

import tensorflow as tf

_HOW_PAIRS_ARE_GIVEN = (
    "Pairs are given as a tuple of two batches, (first, second), each strings (B,), "
    "not as rows of two strings"
)


def text_rows(text: Any, name: str = "x") -> tf.Tensor:
    """Returns strings as (B,), or () for a single string.

    A column of a table, (B, 1), is taken as (B,). Where a dimension is only known at
    run time, it is checked there.

    Args:
        text: strings of shape (), (B,) or (B, 1), or what converts to such a tensor.
        name: what the message calls them.

    Raises:
        ValueError: for any other shape or dtype.
    """
    if isinstance(text, tf.RaggedTensor):
        raise ValueError(
            f"`{name}` must be strings of shape (B,) or (B, 1). Received: a ragged "
            f"tensor of shape {text.shape}. {_HOW_PAIRS_ARE_GIVEN}."
        )
    text = tf.convert_to_tensor(text)
    if text.dtype != tf.string:
        # An empty list converts to an empty tensor of floats.
        if text.shape.num_elements() == 0 and text.shape.rank == 1:
            return tf.zeros((0,), tf.string)
        raise ValueError(
            f"`{name}` must be strings. Received: a tensor of dtype "
            f"{text.dtype.name} and shape {text.shape}."
        )
    rank = text.shape.rank
    if rank is None:
        return tf.ensure_shape(text, (None,))
    if rank < 2:
        return text
    if rank == 2 and text.shape[1] in (1, None):
        return tf.squeeze(tf.ensure_shape(text, (None, 1)), axis=1)
    raise ValueError(
        f"`{name}` must be strings of shape (B,) or (B, 1). Received: shape "
        f"{text.shape}. {_HOW_PAIRS_ARE_GIVEN}."
    )


def equal_rows(first: tf.Tensor, second: tf.Tensor, names: str) -> None:
    """Refuses two batches of which one is known to have more rows.

    Raises:
        ValueError: naming both shapes.
    """
    if not first.shape.is_compatible_with(second.shape):
        raise ValueError(
            f"{names} must have one shape. Received: {first.shape} and {second.shape}."
        )
