"""What a padding mask means to attention and to convolution."""

from typing import Any

from keras import ops

MASKED_SCORE = -10000.0
"""Added to the scores of padded keys: exp of it is 0 in float32, and it fits float16.

A finite value keeps a row of nothing but padding finite: there it cancels out, and an
ordinary softmax remains, as in the official implementation.
"""


def attention_bias(padding_mask: Any) -> Any:
    """Returns what to add to attention scores.

    Args:
        padding_mask: (B, T), 1 for real tokens and 0 for padding, of any dtype.

    Returns:
        float32 (B, 1, 1, T): 0 for real keys, `MASKED_SCORE` for padded ones.
    """
    padded = 1.0 - ops.cast(padding_mask, "float32")
    # Indexing with None would become a slice that LiteRT has no operator for.
    return ops.expand_dims(padded * MASKED_SCORE, (1, 2))


def zero_padding(values: Any, padding_mask: Any) -> Any:
    """Returns `values` (B, T, H) with zeros where `padding_mask` (B, T) is 0."""
    return values * ops.expand_dims(ops.cast(padding_mask, values.dtype), 2)
