"""Numbers by which texts are divided and chosen: a hash for each purpose.

One hash for all purposes would make nested splits eat from each other: texts below 0.1
taken for one thing leave none below 0.02 for the next, and what is below it then came
from somewhere else.
"""

import hashlib
from typing import Literal

Purpose = Literal["held_out", "labelled", "labelled_order", "vocabulary"]
"""What a text is ranked for; each use has a name of its own."""

_WHITE_SPACE = b" \t\n\r\x0b\x0c"


def without_white_space(document: bytes) -> bytes:
    """Returns what identifies a document, however it is spaced."""
    return document.translate(None, _WHITE_SPACE)


def document_hash(document: bytes) -> int:
    """Returns a 64-bit hash that tells documents apart, not to divide them by.

    It depends on the text alone, not on its spacing.
    """
    return _hash(without_white_space(document), b"")


def split_hash(purpose: Purpose, document: bytes) -> int:
    """Returns a 64-bit hash of a text, independent of that for any other purpose.

    Args:
        purpose: what the text is ranked for.
        document: UTF-8 text; its white space does not count.
    """
    return _hash(without_white_space(document), purpose.encode())


def split_rank(purpose: Purpose, document: bytes) -> float:
    """Returns `split_hash` as a number in [0, 1)."""
    # A hash near the end would be rounded up to 1.
    return (split_hash(purpose, document) >> 11) / float(1 << 53)


def _hash(text: bytes, salt: bytes) -> int:
    digest = hashlib.blake2b(text, digest_size=8, person=salt).digest()
    return int.from_bytes(digest, "big")
