"""The files of a preset: of a local directory, or of a hub that KerasHub knows."""

import json
import os
from pathlib import Path
from typing import Any

from keras_hub.src.utils.preset_utils import get_file

CONFIG_FILE = "config.json"


def preset_name(preset: Any) -> str:
    """Returns a preset as the string that KerasHub wants; paths are taken too."""
    return os.fspath(preset) if isinstance(preset, os.PathLike) else preset


def preset_file(preset: Any, name: str) -> Path | None:
    """Returns a file of a preset, downloaded if need be; None where it has none.

    Raises:
        ValueError: if there is no such preset.
    """
    try:
        return Path(get_file(preset_name(preset), name))
    except FileNotFoundError:
        return None


def preset_json(preset: Any, name: str) -> dict[str, Any] | None:
    """Returns what a JSON file of a preset holds; None where it has none.

    Raises:
        ValueError: if there is no such preset.
    """
    file = preset_file(preset, name)
    if file is None:
        return None
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def registered_name(preset: Any, name: str) -> str | None:
    """Returns the class that a JSON file of a preset describes, without its package."""
    content = preset_json(preset, name)
    if content is None:
        return None
    return str(content.get("registered_name", "")).rpartition(">")[2]


def check_is_preset(preset: Any) -> None:
    """Refuses what is no preset.

    Raises:
        ValueError: naming it.
    """
    if preset_file(preset, CONFIG_FILE) is None:
        raise ValueError(
            f"`preset` must be a preset directory, with a {CONFIG_FILE}. Received: "
            f"preset={preset_name(preset)!r}"
        )
