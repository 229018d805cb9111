"""``python -m export check``: compares an artefact with the model it came from."""

import argparse
import sys
from pathlib import Path
from typing import Any

from common.arguments import positive
from common.command_line import UsageError
from export.commands.options import add_model_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``check``."""
    add_model_option(parser)
    parser.add_argument(
        "--artefact",
        required=True,
        metavar="PATH",
        help="a SavedModel's folder (the highest version in it), one of its versions, "
        "or an ONNX directory",
    )
    parser.add_argument(
        "--tolerance",
        type=positive,
        metavar="X",
        help="largest difference of scores (default: by the model's own rounding "
        "noise, at most 1e-5, for ONNX 1e-4)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns what was measured; ``passed`` says whether it is good enough."""
    kind, path = find_artefact(Path(arguments.artefact))
    from export.model_directory import load_model

    model = load_model(arguments.model)
    options = {} if arguments.tolerance is None else {"tolerance": arguments.tolerance}
    if kind == "onnx":
        from export.onnx_parity import check_onnx

        comparison = check_onnx(path, model, **options)
    else:
        from export.saved_model import check_saved_model

        comparison = check_saved_model(path, model, **options)
    errors: list[object] = list(comparison.other_model or [])
    if comparison.mismatch is not None:
        errors.append(comparison.mismatch)
    for error in errors:
        print(f"python -m export: error: {path}: {error}", file=sys.stderr)
    if comparison.other_model is None:
        print(f"{path}: no manifest, so that hashes were not compared", file=sys.stderr)
    return {
        "artefact": str(path),
        "kind": kind,
        "max_abs_difference": comparison.max_abs_difference,
        "tolerance": comparison.tolerance,
        "cases": comparison.differences,
        "same_model": None
        if comparison.other_model is None
        else not comparison.other_model,
        "passed": not errors,
    }


def find_artefact(path: Path) -> tuple[str, Path]:
    """Returns the kind of an artefact, ``"saved_model"`` or ``"onnx"``, and its folder.

    Raises:
        UsageError: if there is none.
    """
    from export.publication import versions

    if (path / "saved_model.pb").is_file():
        return "saved_model", path
    if (path / "model.onnx").is_file():
        return "onnx", path
    numbered = versions(path)
    if numbered and (numbered[max(numbered)] / "saved_model.pb").is_file():
        return "saved_model", numbered[max(numbered)]
    found = sorted(entry.name for entry in path.iterdir())[:10] if path.is_dir() else []
    raise UsageError(
        "--artefact: expected a folder with saved_model.pb, numbered versions or "
        f"model.onnx. Found in {path}: {', '.join(found) or 'nothing'}"
    )
