"""What made a data directory, so that the same command again answers from it.

It is kept beside the directory: the directory itself holds nothing that differs between
the machines and engines that made it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.data.manifest import INDEX_FILE, file_sha256
from training.data.pieces import write_file


def remember(
    output: Path, fingerprint: Mapping[str, Any], result: Mapping[str, Any]
) -> None:
    """Notes that a data directory is finished.

    Args:
        output: the directory.
        fingerprint: everything that its content depends on.
        result: what the command prints.
    """
    note = {
        "fingerprint": _digest(fingerprint),
        "index_sha256": file_sha256(output / INDEX_FILE),
        "result": dict(result),
    }
    write_file(_note(output), (json.dumps(note, indent=2) + "\n").encode())


def recall(output: Path, fingerprint: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what the command printed that made a directory of this fingerprint.

    None if the directory is missing, is another one by now, or was made from anything
    else; or if nothing is known of it.
    """
    index = output / INDEX_FILE
    try:
        note = json.loads(_note(output).read_text("utf-8"))
        same = (
            note["fingerprint"] == _digest(fingerprint)
            and note["index_sha256"] == file_sha256(index)
            and isinstance(note["result"], dict)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**note["result"], "output": str(output)} if same else None


def _note(output: Path) -> Path:
    return output.parent / f".{output.name}.prepared.json"


def _digest(fingerprint: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()
