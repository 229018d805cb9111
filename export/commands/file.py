"""``python -m export file``: writes a model as one file."""

import argparse
import shutil
from pathlib import Path
from typing import Any

from common.arguments import at_least
from common.command_line import UsageError
from export.commands.options import add_model_option, add_pairs_option, pairs

FORMATS = ("keras", "safetensors", "litert")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``file``."""
    add_model_option(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
        help="keras: for keras.models.load_model; safetensors: weights by their paths; "
        "litert: one text of a fixed number of tokens, for LiteRT",
    )
    parser.add_argument(
        "--output",
        required=True,
        metavar="FILE",
        help="the new file, ending in .keras, .safetensors or .tflite",
    )
    parser.add_argument(
        "--sequence-length",
        type=at_least(1),
        metavar="N",
        help="tokens of the input of LiteRT (default: the preprocessor's)",
    )
    add_pairs_option(parser)


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Writes the file, and the model directory's card beside it."""
    if arguments.sequence_length is not None and arguments.format != "litert":
        raise UsageError("--sequence-length: only LiteRT has a fixed length")
    from common.model_card import CARD_FILE, write_directory_card
    from export.model_directory import load_model
    from export.other_formats import write_keras, write_litert, write_safetensors

    file = Path(arguments.output)
    model = load_model(arguments.model)
    if arguments.format == "litert":
        result = write_litert(model, file, pairs(arguments), arguments.sequence_length)
    else:
        write = write_keras if arguments.format == "keras" else write_safetensors
        result = write(model, file)
    card = Path(arguments.model) / CARD_FILE
    if not card.is_file():
        write_directory_card(Path(arguments.model))
    target = file.with_name(f"{file.name}.{CARD_FILE}")
    shutil.copyfile(card, target)
    return {**result, "format": arguments.format, "model_card": str(target)}
