"""Reading, checking and writing a WordPiece vocabulary: one token a line, no TF."""

import codecs
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Duplicates = Literal["error", "last"]

PAD_TOKEN = "[PAD]"
UNK_TOKEN = "[UNK]"
CLS_TOKEN = "[CLS]"
SEP_TOKEN = "[SEP]"
MASK_TOKEN = "[MASK]"
_ASCII_WHITE_SPACE = " \t\n\r\v\f"
SPECIAL_TOKENS = (PAD_TOKEN, UNK_TOKEN, CLS_TOKEN, SEP_TOKEN, MASK_TOKEN)


@dataclass(frozen=True)
class SpecialTokens:
    """The ids that mean something other than text.

    Attributes:
        pad: id of [PAD].
        unk: id of [UNK].
        cls: id of [CLS].
        sep: id of [SEP].
        mask: id of [MASK].
    """

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int

    @classmethod
    def from_vocabulary(cls, vocabulary: Sequence[str]) -> "SpecialTokens":
        """Returns the ids of the special tokens in `vocabulary`."""
        ids = token_ids(vocabulary)
        return cls(*(ids[token] for token in SPECIAL_TOKENS))


def token_ids(vocabulary: Iterable[str]) -> dict[str, int]:
    """Returns token to id; a repeated token keeps its later id, as officially."""
    return {token: index for index, token in enumerate(vocabulary)}


def read_vocabulary(path: str | Path, duplicates: Duplicates = "error") -> list[str]:
    """Reads a vocabulary file.

    Args:
        path: UTF-8 text, with or without a byte order mark, one token a line; the
            line number (from 0) is the id.
        duplicates: ``"error"`` refuses repeated entries and DOS line ends. ``"last"``
            accepts both, as the official code does: a repeated token has the id of
            its later line, and the earlier id is never produced.

    Returns:
        The tokens in order of their ids.

    Raises:
        ValueError: for a damaged file; the message names file and line.
    """
    content = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    vocabulary = []
    for line_number, line in enumerate(lines, start=1):
        where = f"{path}:{line_number}"
        if line.endswith(b"\r"):
            if duplicates == "error":
                raise ValueError(
                    f"{where}: the line ends with a carriage return. Expected lines "
                    "that end with a newline only (convert the file, or read it with "
                    "duplicates='last')."
                )
            line = line.rstrip(b"\r")
        try:
            vocabulary.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{where}: expected UTF-8 text. Received: {line!r} ({error.reason} "
                f"at byte {error.start})."
            ) from None
    check_vocabulary(vocabulary, duplicates, str(path))
    return vocabulary


def check_vocabulary(
    vocabulary: Sequence[str], duplicates: Duplicates = "error", source: str = ""
) -> None:
    """Raises `ValueError`, naming the line, unless the vocabulary is sound.

    Args:
        vocabulary: the tokens in order of their ids.
        duplicates: ``"error"`` or ``"last"``, see `read_vocabulary`.
        source: the file's name for the messages; without one they say "entry".
    """
    if duplicates not in ("error", "last"):
        raise ValueError(
            "`duplicates` must be 'error' or 'last'. "
            f"Received: duplicates={duplicates!r}."
        )
    first_line: dict[str, int] = {}
    for line_number, token in enumerate(vocabulary, start=1):
        entry = f"vocabulary entry {line_number}"
        where = f"{source}:{line_number}" if source else entry
        if not isinstance(token, str):
            raise ValueError(f"{where}: expected a string. Received: {token!r}")
        if not token.strip(_ASCII_WHITE_SPACE):
            raise ValueError(f"{where}: the entry is blank. Expected a token.")
        # Chinese vocabularies hold separators such as U+2028, which no text produces.
        if "\n" in token or token != (token.strip() or token):
            raise ValueError(
                f"{where}: the entry has white space around or a line end in it. "
                f"Received: {token!r}."
            )
        if token in first_line and duplicates == "error":
            raise ValueError(
                f"{where}: the entry {token!r} repeats line {first_line[token]}. "
                "Expected every token once (the official reading, in which the later "
                "line counts, is duplicates='last')."
            )
        first_line.setdefault(token, line_number)
    for token in SPECIAL_TOKENS:
        if token not in first_line:
            raise ValueError(
                f"{source or 'vocabulary'}: the special token {token} is missing "
                f"(looked through lines 1 to {len(vocabulary)})."
            )


def write_vocabulary(path: str | Path, vocabulary: Iterable[str]) -> None:
    """Writes the tokens, one a line, UTF-8, each line ended by a newline."""
    Path(path).write_bytes(vocabulary_bytes(vocabulary))


def vocabulary_bytes(vocabulary: Iterable[str]) -> bytes:
    """Returns the bytes that `write_vocabulary` writes."""
    return "".join(f"{token}\n" for token in vocabulary).encode("utf-8")


def vocabulary_sha256(vocabulary: Iterable[str]) -> str:
    """Returns the hexadecimal sha256 of the bytes that `write_vocabulary` writes."""
    return hashlib.sha256(vocabulary_bytes(vocabulary)).hexdigest()
