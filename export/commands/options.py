"""Options that several commands of ``python -m export`` share."""

import argparse

from common.command_line import UsageError


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--model``."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="DIR",
        help="directory of the model (save_to_preset): a classifier, backbone, "
        "masked LM or span predictor",
    )


def add_pairs_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--pairs`` and ``--no-pairs``."""
    parser.add_argument(
        "--pairs",
        action=argparse.BooleanOptionalAction,
        help='inputs are two texts (default: what "pairs" in the model\'s '
        "training.json says, else one text)",
    )


def pairs(arguments: argparse.Namespace) -> bool:
    """Returns whether the model takes pairs."""
    if arguments.pairs is not None:
        return bool(arguments.pairs)
    from export.model_directory import trained_on_pairs

    return trained_on_pairs(arguments.model)


def integers(text: str, flag: str) -> tuple[int, ...]:
    """Parses integers separated by commas.

    Raises:
        UsageError: naming the flag.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{flag}: expected integers separated by commas. Received: {text!r}"
        ) from None
