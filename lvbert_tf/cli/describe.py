"""``lvbert describe``: what an architecture or a model directory is and costs."""

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lvbert_tf import cost, presets
from lvbert_tf.architecture import Architecture, letter_name
from lvbert_tf.command_line import UsageError, at_least

_CONFIG_FILE = "config.json"
_TRAINING_FILE = "training.json"
_VOCABULARY_FILE = "vocabulary.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "spec",
        metavar="SPEC_OR_DIR",
        help="an architecture string or name, for example ccsffs, (sf)x12, lv_bert; "
        "or a model directory",
    )
    parser.add_argument(
        "--size",
        choices=list(presets.SIZES),
        default=None,
        help="the paper's model size (default: small); for a SPEC",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=at_least(1),
        default=None,
        metavar="N",
        help="entries of the vocabulary (default: 30522); for a SPEC",
    )
    parser.add_argument(
        "--sequence-length",
        type=at_least(1),
        default=128,
        metavar="T",
        help="tokens of the sequence that model_flops is for (default: 128)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the JSON object only"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="also draw the layers into a picture"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="nothing is drawn; accepted as everywhere"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    directory = Path(arguments.spec)
    if arguments.spec and directory.is_dir():
        for option in ("size", "vocabulary_size"):
            if getattr(arguments, option) is not None:
                raise UsageError(
                    f"--{option.replace('_', '-')} is for an architecture: the model "
                    f"in {directory} has its own"
                )
        result = describe_directory(directory, arguments.sequence_length)
    else:
        result = _describe_spec(arguments)
    if arguments.plot is not None:
        from lvbert_tf.drawing import draw_architecture

        if result["architecture"] is None:
            raise UsageError("--plot: a supernet has no single architecture to draw")
        draw_architecture(
            Architecture(result["architecture"]), arguments.spec, arguments.plot
        )
        result["plot"] = str(arguments.plot)
    if not arguments.json:
        print(as_text(result))
    return result


def describe_directory(directory: Path, sequence_length: int = 128) -> dict[str, Any]:
    """Returns the figures of a model directory (a KerasHub preset).

    Nothing of TensorFlow is needed: the configuration says it all.

    Args:
        directory: as `save_to_preset` wrote it.
        sequence_length: tokens of the sequence that `model_flops` is for.

    Raises:
        UsageError: if it holds no model of this library.
    """
    file = directory / _CONFIG_FILE
    if not file.is_file():
        raise UsageError(
            f"{directory}: expected a model directory, found no {_CONFIG_FILE} there"
        )
    content = _read_json(file)
    try:
        return _describe_config(directory, content, sequence_length)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: not a model of lvbert_tf: {error}") from error


def as_text(result: Mapping[str, Any]) -> str:
    """Returns the figures as lines for people."""
    millions = {
        name: result[name]
        for name in (
            "word_embedding_params",
            "backbone_params",
            "total_params",
            "paper_params",
        )
        if result.get(name) is not None
    }
    lines = [f"architecture           {result['architecture'] or 'any (a supernet)'}"]
    lines.append(f"layers                 {result['num_layers']}")
    lines += [
        f"  {letter}  {letter_name(letter):<19} {count}"
        for letter, count in (result["counts"] or {}).items()
    ]
    lines += [
        f"{name:<23}{value:,} ({value / 1e6:.1f}M)" for name, value in millions.items()
    ]
    if result.get("model_flops") is not None:
        length = result["sequence_length"]
        lines.append(
            f"model_flops            {result['model_flops']:.3e} "
            f"(forward, one sequence of {length} tokens)"
        )
        lines.append(
            f"paper_flops            {result['paper_flops']:.2e} "
            f"(pretraining, schedule of {result['paper_schedule']})"
        )
    lines.append(f"space_size             {result['space_size']:,}")
    known = (
        "model",
        "mask_convolution",
        "vocabulary_sha256",
        "trained_sequence_length",
        "plot",
    )
    lines += [f"{name:<23}{result[name]}" for name in known if name in result]
    return "\n".join(lines)


def _describe_spec(arguments: argparse.Namespace) -> dict[str, Any]:
    try:
        architecture = Architecture.parse(arguments.spec)
    except ValueError as error:
        message = str(error)
        if "/" in arguments.spec or "." in arguments.spec:
            message += f"\nNor is there a model directory {arguments.spec}"
        raise UsageError(message) from error
    overrides = {}
    if arguments.vocabulary_size is not None:
        overrides["vocabulary_size"] = arguments.vocabulary_size
    size = arguments.size or "small"
    dimensions = cost.Dimensions.of_size(size, **overrides)
    return {
        "size": size,
        **cost.describe(
            architecture,
            dimensions,
            size=size,
            sequence_length=arguments.sequence_length,
        ),
    }


def _describe_config(
    directory: Path, content: Mapping[str, Any], sequence_length: int
) -> dict[str, Any]:
    name, config = content["class_name"], content["config"]
    while "architecture" not in config and "letters" not in config:
        # An ELECTRA pair, or a task, holds the backbone's configuration in its own.
        inner = next((k for k in ("discriminator", "backbone") if k in config), None)
        if inner is None:
            raise ValueError(f"{name} has no architecture")
        config = config[inner]["config"]
    dimensions = cost.Dimensions.of_config(config)
    if "architecture" in config:
        result = cost.describe(
            config["architecture"], dimensions, sequence_length=sequence_length
        )
    else:
        result = {
            "architecture": None,
            "num_layers": config["num_layers"],
            "counts": None,
            "letters": config["letters"],
            "word_embedding_params": cost.word_embedding_params(dimensions),
            "space_size": cost.space_size(config["num_layers"], len(config["letters"])),
        }
    training = directory / _TRAINING_FILE
    trained = _read_json(training) if training.is_file() else {}
    return {
        "model": name,
        **result,
        "dimensions": vars(dimensions),
        "mask_convolution": config["mask_convolution"],
        "vocabulary_sha256": trained.get("vocabulary_sha256")
        or _vocabulary_sha256(directory),
        "trained_sequence_length": trained.get("trained_sequence_length"),
    }


def _vocabulary_sha256(directory: Path) -> str | None:
    """Returns the hash of the tokenizer's vocabulary, if there is a tokenizer."""
    files = sorted(directory.rglob(_VOCABULARY_FILE))
    return hashlib.sha256(files[0].read_bytes()).hexdigest() if files else None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: expected a JSON object: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{file}: expected a JSON object, found {content!r:.60}")
    return content
