"""What an artefact says about itself: checksums, versions, measured differences."""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common.command_line import CommandError
from common.hashes import weights_sha256
from export.parity import Comparison
from export.task import Task
from lvbert_tf.cost import Dimensions, model_flops

MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1
_PACKAGES = (
    "lvbert-tf",
    "keras",
    "keras-hub",
    "tensorflow",
    "tensorflow-text",
    "onnx",
    "tf2onnx",
    "onnxruntime",
    "tokenizers",
    "numpy",
)


class ManifestError(CommandError):
    """A manifest is missing, unreadable, or does not fit the files beside it."""


def describe_artefact(
    model: Any, task: Task, comparison: Comparison, **more: Any
) -> dict[str, Any]:
    """Returns a manifest without checksums.

    Nothing in it depends on when or where the export ran, so that two exports of one
    model on one stack are the same bytes.

    Args:
        model: the exported model.
        task: what it does.
        comparison: how the artefact compared with it.
        **more: what only this kind of artefact has.
    """
    backbone = model.backbone
    return {
        "format_version": FORMAT_VERSION,
        **more,
        "task": asdict(task),
        "model": {
            "architecture": backbone.architecture,
            "hidden_dim": backbone.hidden_dim,
            "embedding_dim": backbone.embedding_dim,
            "intermediate_dim": backbone.intermediate_dim,
            "num_heads": backbone.num_heads,
            "kernel_size": backbone.kernel_size,
            "mask_convolution": backbone.mask_convolution,
            "parameters": int(model.count_params()),
            "flops": encoder_flops(backbone, task.sequence_length),
            "weights_sha256": weights_sha256(model.weights),
            "vocabulary_sha256": model.preprocessor.tokenizer.vocabulary_sha256,
        },
        "measured": measured(comparison),
        "versions": versions(),
    }


def encoder_flops(backbone: Any, sequence_length: int) -> dict[str, Any]:
    """Returns the FLOPs of a forward pass over one sequence, and its length."""
    dimensions = Dimensions(
        embedding_dim=backbone.embedding_dim,
        hidden_dim=backbone.hidden_dim,
        intermediate_dim=backbone.intermediate_dim,
        num_heads=backbone.num_heads,
        vocabulary_size=backbone.vocabulary_size,
        kernel_size=backbone.kernel_size,
        max_sequence_length=backbone.max_sequence_length,
        num_segments=backbone.num_segments,
    )
    flops = model_flops(backbone.architecture, dimensions, sequence_length)
    return {"forward": float(flops), "sequence_length": sequence_length}


def measured(comparison: Comparison) -> dict[str, Any]:
    """Returns the differences from Keras and the tolerance they were held against."""
    return {
        "max_abs_difference": comparison.max_abs_difference,
        "tolerance": comparison.tolerance,
        "cases": dict(comparison.differences),
    }


def other_model(manifest: Mapping[str, Any], model: Any) -> list[str]:
    """Returns which hashes in a manifest are not the model's own, a sentence each.

    Raises:
        ManifestError: if the manifest has no such hashes.
    """
    own = {
        "weights_sha256": weights_sha256(model.weights),
        "vocabulary_sha256": model.preprocessor.tokenizer.vocabulary_sha256,
    }
    stored = manifest.get("model")
    if not isinstance(stored, dict) or not own.keys() <= stored.keys():
        raise ManifestError(
            f"{MANIFEST_FILE}: model: expected {' and '.join(own)}. Received: {stored}"
        )
    return [
        f"made from another model: {name}: the model has {value}, the artefact's "
        f"manifest {stored[name]}"
        for name, value in own.items()
        if stored[name] != value
    ]


def versions() -> dict[str, str]:
    """Returns the versions of Python and of what the export is made with."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def file_entries(directory: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns size in bytes and sha256 of files in a directory, by their names."""
    entries = {}
    for name in names:
        content = (directory / name).read_bytes()
        entries[name] = {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return entries


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Writes ``manifest.json``."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (directory / MANIFEST_FILE).write_text(text, encoding="utf-8")


def read_manifest(directory: Path, files_below: Path | None = None) -> dict[str, Any]:
    """Reads ``manifest.json`` and verifies the checksums of the files that it lists.

    Args:
        directory: where the manifest lies.
        files_below: where the files lie, if not beside it.

    Raises:
        ManifestError: if something is missing or altered, naming it.
    """
    path = directory / MANIFEST_FILE
    if not path.is_file():
        raise ManifestError(f"{path} is missing")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        entries = manifest["files"]
        format_version = manifest["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestError(f"{path}: not a manifest: {error!r}") from None
    if format_version != FORMAT_VERSION:
        raise ManifestError(
            f"{path}: format_version: expected {FORMAT_VERSION}. "
            f"Received: {format_version!r}"
        )
    root = files_below or directory
    for name, entry in entries.items():
        if not (root / name).is_file():
            raise ManifestError(f"{root / name} is missing")
        found = file_entries(root, [name])[name]
        if found != entry:
            raise ManifestError(
                f"{root / name} was altered: expected {entry}. Found: {found}"
            )
    result: dict[str, Any] = manifest
    return result
