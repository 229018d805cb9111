"""Loading a classifier from a model directory, and nothing that only resembles one."""

import json
from pathlib import Path
from typing import Any

from common.command_line import UsageError

_CLASSIFIER = "LVBertTextClassifier"
_TASK_WEIGHTS = "task.weights.h5"


def load_classifier(directory: str | Path) -> Any:
    """Returns the `LVBertTextClassifier` that lies in a model directory.

    It computes in float32, whatever dtype policy it was trained with: that is what
    artefacts compute in.

    Raises:
        UsageError: if the directory is missing or holds something else. KerasHub would
            give a backbone's directory a new head with random weights instead.
    """
    path = Path(directory)
    if not path.is_dir():
        raise UsageError(f"--model: no such directory: {path}")
    found = _class_in(path / "task.json") or _class_in(path / "config.json")
    if found != _CLASSIFIER:
        raise UsageError(
            f"--model: expected a directory with an {_CLASSIFIER} (written by "
            f"save_to_preset). Found in {path}: {found or 'no model'}"
        )
    if not (path / _TASK_WEIGHTS).is_file():
        raise UsageError(
            f"--model: {path}: {_TASK_WEIGHTS} is missing, so that the classifier's "
            "head would be random"
        )
    import lvbert_tf

    try:
        return lvbert_tf.LVBertTextClassifier.from_preset(str(path), dtype="float32")
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise UsageError(f"--model: {path} cannot be loaded: {error}") from error


def trained_on_pairs(directory: str | Path) -> bool:
    """Whether ``training.json`` in a model directory says ``"pairs": true``."""
    return read_provenance(directory).get("pairs") is True


def read_provenance(directory: str | Path) -> dict[str, Any]:
    """Returns what ``training.json`` in a model directory says, {} without one."""
    return _read(Path(directory) / "training.json")


def _class_in(path: Path) -> str | None:
    name = _read(path).get("class_name")
    return name if isinstance(name, str) else None


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: expected JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected a JSON object")
    return content
