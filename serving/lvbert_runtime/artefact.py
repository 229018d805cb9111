"""Reading an artefact's manifest, and the checksums of the files beside it."""

import hashlib
import json
from pathlib import Path
from typing import Any

_FORMAT_VERSION = 1


class ArtefactError(Exception):
    """The directory holds no artefact that can be used; the message names the file."""


def read_manifest(folder: Path, verify: bool) -> dict[str, Any]:
    """Returns the manifest of an ONNX artefact.

    Args:
        folder: the artefact's directory.
        verify: whether to compare its files with the checksums.

    Raises:
        ArtefactError: if the manifest or a file is missing, altered, or of another
            format.
    """
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtefactError(f"{path}: expected a manifest: {error}") from None
    if not isinstance(manifest, dict) or (
        manifest.get("kind"),
        manifest.get("format_version"),
    ) != ("onnx", _FORMAT_VERSION):
        raise ArtefactError(
            f"{path}: expected an ONNX manifest of format_version {_FORMAT_VERSION}"
        )
    for name in ("model.onnx", "tokenizer.json", "labels.json"):
        entry = manifest.get("files", {}).get(name)
        if entry is None:
            raise ArtefactError(f"{path}: expected a checksum of {name}")
        if not (folder / name).is_file():
            raise ArtefactError(f"{folder / name}: no such file")
        if verify and _sha256(folder / name) != entry.get("sha256"):
            raise ArtefactError(
                f"{folder / name}: its sha256 is not the one in manifest.json: the "
                "file was altered, or belongs to another export"
            )
    return manifest


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
