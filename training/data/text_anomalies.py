"""Finds what doesn't belong into text: undecodable bytes, NULs, control characters."""

import re
from collections.abc import Sequence

_CONTROLS = bytes([*range(1, 9), 11, 12, *range(14, 32), 127])
_HIGH_CONTROLS = re.compile(rb"\xc2[\x80-\x9f]")


def clean_documents(
    documents: Sequence[bytes],
) -> tuple[list[bytes], dict[str, int]]:
    """Drops undecodable bytes and counts what is odd.

    NULs and control characters stay: normalisation drops them from every text, here
    and in the served model.

    Args:
        documents: bytes as they were read.

    Returns:
        The documents as well-formed UTF-8, and the counts `undecodable_bytes`,
        `nul_characters` and `control_characters`.
    """
    undecodable = nuls = controls = 0
    cleaned = []
    for document in documents:
        try:
            document.decode("utf-8")
        except UnicodeDecodeError:
            sound = document.decode("utf-8", "ignore").encode("utf-8")
            undecodable += len(document) - len(sound)
            cleaned.append(sound)
        else:
            cleaned.append(document)
        sound = cleaned[-1]
        nuls += sound.count(b"\0")
        controls += len(sound) - len(sound.translate(None, _CONTROLS))
        if b"\xc2" in sound:
            controls += len(_HIGH_CONTROLS.findall(sound))
    return cleaned, {
        "undecodable_bytes": undecodable,
        "nul_characters": nuls,
        "control_characters": controls,
    }
