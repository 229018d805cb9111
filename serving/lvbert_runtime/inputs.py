"""Token inputs that callers may pass, and the error that names other ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class InputError(ValueError):
    """What was asked is not as expected; the message names the argument."""


def integer_matrix(name: str, value: Any) -> Array:
    """Returns integers (B, T) as int64."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(
            f"{name}: expected rows of equal length (B, T). Pad them, with "
            "padding_mask 0 there"
        ) from None
    if array.ndim != 2:
        raise InputError(
            f"{name}: expected two axes (batch, sequence). Received: {array.ndim}, "
            f"shape {array.shape}"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name}: expected integers. Received: {array.dtype}")
    return array.astype(np.int64)
