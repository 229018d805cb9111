"""What values of command-line options may be."""

import argparse

from common.command_line import at_least

__all__ = ["at_least", "not_negative", "positive"]


def positive(text: str) -> float:
    """Parses a positive number.

    Raises:
        argparse.ArgumentTypeError: if it is none.
    """
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"expected a positive number. Received: {text!r}"
        )
    return value


def not_negative(text: str) -> float:
    """Parses a number of 0 or more.

    Raises:
        argparse.ArgumentTypeError: if it is none.
    """
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"expected a number of at least 0. Received: {text!r}"
        )
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
