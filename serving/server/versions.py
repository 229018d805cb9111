"""Finds the versions of a model on disk."""

import re
from pathlib import Path

from common.command_line import UsageError
from serving.server.model_config import ModelConfig, Specific

_VERSION = re.compile(r"[0-9]{1,19}")
_LARGEST_VERSION = 2**63 - 1
_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")

# Relative path, size in bytes and modification time in ns of every file.
Fingerprint = tuple[tuple[str, int, int], ...]


def present_versions(base_path: Path) -> dict[int, Path]:
    """Returns the folders in `base_path` that are versions, by number.

    A folder is a version where its name is a number and a SavedModel lies in it. Of
    two names for one number (``1`` and ``001``) the first in order counts.

    Raises:
        OSError: if the folder cannot be read.
    """
    versions: dict[int, Path] = {}
    for path in sorted(base_path.iterdir()):
        if not _VERSION.fullmatch(path.name) or int(path.name) > _LARGEST_VERSION:
            continue
        if any((path / name).is_file() for name in _MODEL_FILES):
            versions.setdefault(int(path.name), path)
    return versions


def fingerprint(path: Path) -> Fingerprint:
    """Returns what tells whether anything in a version's folder has changed."""
    files = []
    for file in sorted(path.rglob("*")):
        try:
            status = file.stat()
        except OSError:  # it went away while we looked
            continue
        files.append((str(file.relative_to(path)), status.st_size, status.st_mtime_ns))
    return tuple(files)


def check_startable(config: ModelConfig) -> None:
    """Checks before the start that a model has the versions it is to serve.

    Raises:
        UsageError: naming the model, what was expected and what is there.
    """
    where = f"model {config.name}: {config.base_path}"
    try:
        present = present_versions(config.base_path)
        names = sorted(path.name for path in config.base_path.iterdir())
    except OSError as error:
        raise UsageError(f"{where}: cannot be read: {error.strerror}") from None
    received = f"Received: {', '.join(names[:8]) or 'an empty folder'}"
    if any(name in _MODEL_FILES for name in names):
        base = config.base_path
        advice = f"move its files into {base / '1'}"
        if _VERSION.fullmatch(base.name):
            advice = f"name its parent, {base.parent}"
        raise UsageError(
            f"{where}: this is a version itself, expected was the folder that holds "
            f"the numbered versions: {advice}"
        )
    if isinstance(config.policy, Specific):
        missing = sorted(set(config.policy.versions) - set(present))
        if missing:
            raise UsageError(
                f"{where}: expected the versions {list(config.policy.versions)}; "
                f"missing are {missing}. {received}"
            )
    wanted = config.wanted(list(present))
    if not wanted:
        raise UsageError(
            f"{where}: no version to serve: expected folders with a number as name and "
            f"a saved_model.pb inside, such as {config.base_path / '1'}. {received}"
        )
    for label, version in config.labels.items():
        if version not in wanted:
            raise UsageError(
                f"{where}: version_labels: {label} is to name version {version}, but "
                f"served are {wanted}; widen the model_version_policy"
            )
