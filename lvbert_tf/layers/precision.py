"""Where half precision ends: logits, losses and softmaxes are at least float32."""

from typing import Any

from keras import ops


def at_least_float32(x: Any) -> Any:
    """Returns a float tensor as float32, or as it is where it is float64."""
    return x if x.dtype == "float64" else ops.cast(x, "float32")
