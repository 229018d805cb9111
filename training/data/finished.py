"""What made a data directory, so that the same command again answers from it.

It is kept beside the directory: the directory itself holds nothing that differs between
the machines and engines that made it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.files import write_bytes
from common.hashes import content_sha256, file_sha256
from training.data.manifest import INDEX_FILE


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
        "fingerprint": content_sha256(fingerprint),
        "index_sha256": file_sha256(output / INDEX_FILE),
        "result": dict(result),
    }
    write_bytes(_note(output), (json.dumps(note, indent=2) + "\n").encode())


def recall(output: Path, fingerprint: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what the command printed that made a directory of this fingerprint.

    None if the directory is missing, is another one by now, or was made from anything
    else; or if nothing is known of it.
    """
    index = output / INDEX_FILE
    try:
        note = json.loads(_note(output).read_text("utf-8"))
        same = (
            note["fingerprint"] == content_sha256(fingerprint)
            and note["index_sha256"] == file_sha256(index)
            and isinstance(note["result"], dict)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**note["result"], "output": str(output)} if same else None


def _note(output: Path) -> Path:
    return output.parent / f".{output.name}.prepared.json"
