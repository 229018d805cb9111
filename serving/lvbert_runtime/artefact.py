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
    files = manifest.get("files")
    for name in ("model.onnx", "tokenizer.json", "labels.json"):
        entry = files.get(name) if isinstance(files, dict) else None
        if not isinstance(entry, dict):
            raise ArtefactError(f"{path}: expected a checksum of {name}")
        if not (folder / name).is_file():
            raise ArtefactError(f"{folder / name}: no such file")
        if verify and _sha256(folder / name) != entry.get("sha256"):
            raise ArtefactError(
                f"{folder / name}: its sha256 is not the one in manifest.json: the "
                "file was altered, or belongs to another export"
            )
    return manifest


class Fields:
    """The fields of an object in a manifest, each checked as it is read.

    Args:
        where: the file and the object, for messages.
        values: the object.

    Raises:
        ArtefactError: if it is no object, or when a field is read that is missing or
            of another type.
    """

    def __init__(self, where: str, values: object) -> None:
        if not isinstance(values, dict):
            raise ArtefactError(f"{where}: expected an object. Received: {values!r}")
        self._where = where
        self._values = values

    def integer(self, name: str, minimum: int = 0, maximum: int | None = None) -> int:
        """Returns a whole number from `minimum` to `maximum`."""
        value = self._field(name)
        if type(value) is not int or not (
            minimum <= value and (maximum is None or value <= maximum)
        ):
            limit = "" if maximum is None else f" to {maximum}"
            raise ArtefactError(
                f"{self._where}: {name}: expected an integer from {minimum}{limit}. "
                f"Received: {value!r}"
            )
        return value

    def boolean(self, name: str) -> bool:
        """Returns true or false."""
        value = self._field(name)
        if not isinstance(value, bool):
            raise ArtefactError(
                f"{self._where}: {name}: expected true or false. Received: {value!r}"
            )
        return value

    def strings(self, name: str) -> list[str]:
        """Returns a list of strings."""
        value = self._field(name)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise ArtefactError(
                f"{self._where}: {name}: expected strings. Received: {value!r}"
            )
        return value

    def text(self, name: str, default: str) -> str:
        """Returns a string, or `default` where there is none."""
        return str(self._values.get(name, default))

    def _field(self, name: str) -> Any:
        if name not in self._values:
            raise ArtefactError(f"{self._where}: expected the field '{name}'")
        return self._values[name]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
