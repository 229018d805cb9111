"""Hashes by which files, weights and settings are compared; all hexadecimal sha256."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def file_sha256(path: Path) -> str:
    """Returns the hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_sha256(weights: Iterable[Any]) -> str:
    """Returns the hash over Keras variables' paths and bytes, in order of paths."""
    digest = hashlib.sha256()
    for weight in sorted(weights, key=lambda weight: str(weight.path)):
        digest.update(weight.path.encode("utf-8"))
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()


def content_sha256(content: Any) -> str:
    """Returns the hash of what JSON can hold, however its keys are ordered."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
