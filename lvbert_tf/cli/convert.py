"""``lvbert convert``: a checkpoint of others becomes a model directory."""

import argparse
import shutil
from pathlib import Path
from typing import Any

from lvbert_tf.command_line import CommandError, UsageError, at_least


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--checkpoint",
        required=True,
        metavar="PATH",
        help="an official TensorFlow 1 checkpoint: its files without their suffixes "
        "(.index, .data-...); or a directory: a KerasHub preset or a transformers "
        "checkpoint of BERT or ELECTRA",
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="model directory to write"
    )
    parser.add_argument(
        "--num-heads",
        type=at_least(1),
        metavar="N",
        help="attention heads, where the variables don't tell (no `c` layer)",
    )
    parser.add_argument(
        "--vocabulary", type=Path, metavar="FILE", help="vocab.txt of the checkpoint"
    )
    parser.add_argument(
        "--cased", action="store_true", help="the vocabulary keeps upper case"
    )
    parser.add_argument(
        "--duplicates",
        choices=("error", "last"),
        default="error",
        help="what to do about vocabulary entries that occur twice: refuse them, or "
        "count the later as the official code does (default: error)",
    )
    parser.add_argument(
        "--kind",
        choices=("backbone", "masked_lm", "electra", "classifier", "span_predictor"),
        default="backbone",
        help="which networks and heads to take (default: backbone)",
    )
    parser.add_argument(
        "--no-strict",
        action="store_true",
        help="go on where variables are left over, missing or of another shape",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing --output"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of weights that the checkpoint lacks"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    output: Path = arguments.output
    if output.exists() and not arguments.overwrite:
        raise UsageError(
            f"--output {output}: exists already; choose another name or --overwrite"
        )
    if Path(arguments.checkpoint).is_dir():
        return _convert_published(arguments)
    if not Path(f"{arguments.checkpoint}.index").is_file():
        raise UsageError(
            f"--checkpoint {arguments.checkpoint}: expected the file "
            f"{arguments.checkpoint}.index, found none"
        )
    if arguments.vocabulary is not None and not arguments.vocabulary.is_file():
        raise UsageError(f"--vocabulary {arguments.vocabulary}: no such file")
    import keras

    from lvbert_tf.conversion import load_official_checkpoint

    keras.utils.set_random_seed(arguments.seed)
    try:
        tokenizer = _tokenizer(arguments)
    except ValueError as error:
        raise UsageError(f"--vocabulary {arguments.vocabulary}: {error}") from error
    try:
        model = load_official_checkpoint(
            arguments.checkpoint,
            num_heads=arguments.num_heads,
            vocabulary=arguments.vocabulary,
            kind=arguments.kind,
            strict=not arguments.no_strict,
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    _write(model, tokenizer, output)
    return _result(model.conversion_report, output, arguments.kind)


def _convert_published(arguments: argparse.Namespace) -> dict[str, Any]:
    """Converts a directory of KerasHub's or of transformers'."""
    given = {
        "--kind": arguments.kind != "backbone",
        "--num-heads": arguments.num_heads is not None,
        "--no-strict": arguments.no_strict,
    }
    wrong = [option for option, is_given in given.items() if is_given]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)}: for official checkpoints only; a directory is "
            "converted as its configuration says, and its backbone only"
        )
    if arguments.vocabulary is not None and not arguments.vocabulary.is_file():
        raise UsageError(f"--vocabulary {arguments.vocabulary}: no such file")
    from lvbert_tf.published import load_published_encoder

    try:
        backbone, tokenizer = load_published_encoder(arguments.checkpoint)
        if arguments.vocabulary is not None:
            tokenizer = _tokenizer(arguments)
            entries, rows = tokenizer.vocabulary_size(), backbone.vocabulary_size
            if entries != rows:
                raise UsageError(
                    f"--vocabulary {arguments.vocabulary}: expected {rows} entries, "
                    f"found {entries}"
                )
    except (ValueError, OSError, KeyError) as error:
        raise CommandError(f"--checkpoint {arguments.checkpoint}: {error}") from error
    _write(backbone, tokenizer, arguments.output)
    return {
        **_result(backbone.conversion_report, arguments.output, "backbone"),
        "tokenizer": tokenizer is not None,
    }


def _result(report: Any, output: Path, kind: str) -> dict[str, Any]:
    return {
        "model": str(output),
        "kind": kind,
        "converted": report.converted,
        "unused": report.unused,
        "missing": report.missing,
        "mismatched": [
            {"name": name, "expected": list(expected), "found": list(actual)}
            for name, expected, actual in report.mismatched
        ],
    }


def _tokenizer(arguments: argparse.Namespace) -> Any:
    if arguments.vocabulary is None:
        return None
    from lvbert_tf.models.tokenizer import LVBertTokenizer

    return LVBertTokenizer(
        str(arguments.vocabulary),
        lowercase=not arguments.cased,
        duplicates=arguments.duplicates,
    )


def _write(model: Any, tokenizer: Any, output: Path) -> None:
    """Writes the directory so that it is whole whenever it has its name."""
    partial = output.with_name(f"{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_to_preset(str(partial))
    if tokenizer is not None:
        tokenizer.save_to_preset(str(partial))
    if output.is_dir():
        shutil.rmtree(output)
    partial.rename(output)
