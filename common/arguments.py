"""What values of command-line options may be."""

import argparse
from collections.abc import Callable

from common.command_line import at_least

__all__ = ["at_least", "not_negative", "number_from", "port", "positive"]


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


def number_from(least: float) -> Callable[[str], float]:
    """Returns an argparse `type` for finite numbers from `least` on."""

    def parse(text: str) -> float:
        value = _number(text)
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(
                f"expected a number of at least {least:g}. Received: {text!r}"
            )
        return value

    return parse


def not_negative(text: str) -> float:
    """Parses a number of 0 or more.

    Raises:
        argparse.ArgumentTypeError: if it is none.
    """
    return number_from(0)(text)


def port(text: str) -> int:
    """Parses a TCP port; 0 means any free one.

    Raises:
        argparse.ArgumentTypeError: if it is none.
    """
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(
            f"expected a port from 0 to 65535. Received: {text!r}"
        )
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
