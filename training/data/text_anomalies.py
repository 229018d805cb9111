"""Finds what doesn't belong into text: undecodable bytes, NULs, control characters."""

import re
from collections.abc import Sequence

import numpy as np

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
    undecodable = 0
    cleaned = []
    for document in documents:
        sound = document
        if not document.isascii():
            try:
                document.decode("utf-8")
            except UnicodeDecodeError:
                sound = document.decode("utf-8", "ignore").encode("utf-8")
        undecodable += len(document) - len(sound)
        cleaned.append(sound)
    text = b"\n".join(cleaned)
    nuls = text.count(b"\0")
    return cleaned, {
        "undecodable_bytes": undecodable,
        "nul_characters": nuls,
        "control_characters": count_controls(text) - nuls,
    }


def count_controls(text: bytes) -> int:
    """Returns how many control characters there are, NULs among them.

    Tab, line feed and carriage return are white space, not control characters.
    """
    # Comparing bytes in numpy is several times faster than `bytes.translate`, and for
    # what is frequent than `bytes.count`.
    values = np.frombuffer(text, np.uint8)
    low = int(np.count_nonzero(values < 32) - np.count_nonzero(values == 10))
    if low:
        low -= text.count(b"\t") + text.count(b"\r")
    high = len(_HIGH_CONTROLS.findall(text)) if b"\xc2" in text else 0
    return low + text.count(b"\x7f") + high
