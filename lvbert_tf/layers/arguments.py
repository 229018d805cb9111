"""Checks of constructor arguments, in the form of Keras' messages."""

import difflib
import inspect
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def positive_integers(**values: Any) -> list[int]:
    """Returns sizes as Python's integers, which Keras' layers want.

    Args:
        **values: the arguments by name; numpy's integers are integers, text of digits
            is none.

    Raises:
        ValueError: naming the first argument that is none.
    """
    for name, value in values.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or int(value) < 1:
            raise ValueError(
                f"`{name}` must be a positive integer. Received: {name}={value!r}"
            )
    return [int(value) for value in values.values()]


def check_rates(**values: Any) -> None:
    """Refuses dropout rates that are no numbers from 0 to below 1.

    Args:
        **values: the arguments by name.

    Raises:
        ValueError: naming the first argument that is none.
    """
    _check_numbers(values, 1.0, "at least 0 and below 1")


def check_weights(**values: Any) -> None:
    """Refuses weights of losses that are no finite numbers of at least 0.

    Args:
        **values: the arguments by name.

    Raises:
        ValueError: naming the first argument that is none.
    """
    _check_numbers(values, float("inf"), "a finite number of at least 0")


def _check_numbers(values: dict[str, Any], below: float, expected: str) -> None:
    for name, value in values.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not 0 <= float(value) < below:
            raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")


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


def check_known(model: Any, given: Iterable[str]) -> None:
    """Refuses arguments that a functional model of Keras would drop silently.

    Args:
        model: the model that is being made.
        given: names of its arguments beyond those of its constructor.

    Raises:
        ValueError: naming the first unknown one, and what it may stand for.
    """
    known = ("name", "trainable")
    for name in given:
        if name in known:
            continue
        parameters = inspect.signature(type(model).__init__).parameters
        near = difflib.get_close_matches(name, [*parameters, *known], n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise ValueError(
            f"Unrecognized argument of {type(model).__name__}.{hint} Received: {name}"
        )
