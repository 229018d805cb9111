"""Token inputs that callers may pass, and the error that names other ones."""

import operator
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class InputError(ValueError):
    """What was asked is not as expected; the message names the argument."""


def whole_number(
    name: str, value: Any, minimum: int, maximum: int | None = None
) -> int:
    """Returns an integer within its limits.

    Raises:
        InputError: naming the argument, if it is none or outside.
    """
    wrong = isinstance(value, (bool, np.bool_))
    try:
        number = operator.index(value)
    except TypeError:
        number, wrong = 0, True
    if wrong or number < minimum or (maximum is not None and number > maximum):
        limit = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
        raise InputError(f"{name}: expected {limit}. Received: {value!r}")
    return number


def string_list(name: str, values: Any) -> list[str]:
    """Returns strings as a list, without what has no UTF-8 form.

    Raises:
        InputError: naming the argument, if they are no sequence of strings.
    """
    if isinstance(values, (str, bytes)):
        raise InputError(f"{name}: expected a list. Received: one string")
    if isinstance(values, (Mapping, Set)) or not isinstance(values, Iterable):
        raise InputError(
            f"{name}: expected a list of strings. Received: {type(values).__name__}"
        )
    strings = list(values)
    for index, value in enumerate(strings):
        if not isinstance(value, str):
            raise InputError(
                f"{name}[{index}]: expected str. Received: {type(value).__name__}"
            )
    return [without_surrogates(value) for value in strings]


def without_surrogates(text: str) -> str:
    """Drops lone surrogates, which have no UTF-8 form, as the served graph does."""
    return text.encode("utf-8", "ignore").decode()


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
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{name}: expected int64. Received: {array.max()}")
    return array.astype(np.int64)
