"""Checks of constructor arguments, in the form of Keras' messages."""

from numbers import Integral, Real
from typing import Any


def check_positive_integers(**values: Any) -> None:
    """Refuses sizes that are no whole numbers of at least 1, text of digits included.

    Args:
        **values: the arguments by name; numpy's integers are integers.

    Raises:
        ValueError: naming the first argument that is none.
    """
    for name, value in values.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or int(value) < 1:
            raise ValueError(
                f"`{name}` must be a positive integer. Received: {name}={value!r}"
            )


def check_rates(**values: Any) -> None:
    """Refuses dropout rates that are no numbers from 0 to below 1.

    Args:
        **values: the arguments by name.

    Raises:
        ValueError: naming the first argument that is none.
    """
    for name, value in values.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 <= float(value) < 1:
            raise ValueError(
                f"`{name}` must be at least 0 and below 1. Received: {name}={value!r}"
            )


def check_flags(**values: Any) -> None:
    """Refuses what is neither True nor False, such as "no", which would count as True.

    Args:
        **values: the arguments by name.

    Raises:
        ValueError: naming the first argument that is neither.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ValueError(
                f"`{name}` must be True or False. Received: {name}={value!r}"
            )
