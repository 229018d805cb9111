"""The lines of a text file, with their numbers, and the bytes that are no text."""

import gzip
import lzma
import zlib
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.compression import COMPRESSION_SUFFIXES, decompressed, split_suffixes
from common.labelled_tables.bad_rows import BadRows

_BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""File name suffixes and the formats that they mean."""


@dataclass(frozen=True)
class Line:
    """A line without its end.

    Attributes:
        number: from 1 on.
        text: what it says.
    """

    number: int
    text: str


def read_bytes(path: Path) -> bytes:
    """Returns a file's content, decompressed (.gz, .bz2, .xz, .zst).

    Raises:
        UsageError: naming the file, and what lies beside one that is not there.
    """
    try:
        with path.open("rb") as raw:
            return decompressed(raw, split_suffixes(path.name)[1]).read()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file{_beside(path)}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{path}: cannot be read: {reason}") from None
    except _BROKEN as error:
        raise UsageError(f"{path}: cannot be decompressed: {error}") from None


def read_lines(path: Path, bad: BadRows) -> list[Line]:
    """Returns the lines of a UTF-8 file; LF, CRLF or a lone CR ends them.

    A lone CR ends lines only in a file that has no LF: elsewhere it is a character.

    Args:
        path: the file; a byte order mark is dropped.
        bad: where lines that are not UTF-8 are noted.

    Raises:
        UsageError: if the file cannot be read, or is UTF-16.
    """
    content = read_bytes(path)
    if content.startswith(_UTF16):
        raise UsageError(
            f"{path}:1: expected UTF-8, found UTF-16 (its byte order mark). Save the "
            "file as UTF-8, for example by: iconv -f UTF-16 -t UTF-8"
        )
    content = content.removeprefix(b"\xef\xbb\xbf")
    end = b"\n" if b"\n" in content or b"\r" not in content else b"\r"
    lines = []
    pieces = content.split(end)
    if pieces[-1] == b"":
        del pieces[-1]
    for number, piece in enumerate(pieces, start=1):
        try:
            text = piece.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            bad.add(
                number,
                f"expected UTF-8, found byte {error.object[error.start]:#04x} at "
                f"byte {error.start + 1} of the line",
            )
            continue
        lines.append(Line(number, text))
    return lines


def format_of(path: Path, given: str = "auto") -> str:
    """Returns a table's format, `given` or that of its suffix.

    Raises:
        UsageError: if the suffix says nothing.
    """
    if given != "auto":
        return given
    suffix = split_suffixes(path.name)[0]
    if suffix not in FORMATS:
        raise UsageError(
            f"{path}: expected a name that ends in {', '.join(FORMATS)} (and maybe "
            f"{', '.join(COMPRESSION_SUFFIXES)}), or the format as an option "
            f"(tsv, csv, jsonl), found {path.name!r}"
        )
    return FORMATS[suffix]


def find_table(folder: Path, stem: str, formats: tuple[str, ...] = ()) -> Path:
    """Returns the one table ``STEM.tsv``, ``STEM.csv.gz``, ... of a folder.

    Args:
        folder: where to look.
        stem: the name without suffixes.
        formats: formats that count; all if empty.

    Raises:
        UsageError: if there is none or more than one, with what lies there.
    """
    if not folder.is_dir():
        what = "a file" if folder.exists() else "nothing"
        raise UsageError(
            f"{folder}: expected a directory with {stem}.tsv (or name the files), "
            f"found {what} there"
        )
    names = [
        f"{stem}{suffix}{compression}"
        for suffix, kind in FORMATS.items()
        if not formats or kind in formats
        for compression in ("", *COMPRESSION_SUFFIXES)
    ]
    there = [folder / name for name in names if (folder / name).is_file()]
    if len(there) == 1:
        return there[0]
    if there:
        raise UsageError(
            f"{folder}: expected one file of {stem}, found "
            f"{', '.join(path.name for path in there)}. Name the one to read"
        )
    raise UsageError(f"{folder / names[0]}: no such file{_beside(folder / names[0])}")


def _beside(path: Path) -> str:
    """Tells what else lies where a file was looked for."""
    stem = path.name.split(".")[0]
    if not path.parent.is_dir():
        return f" (there is no directory {path.parent})"
    names = sorted(p.name for p in path.parent.iterdir() if p.is_file())
    alike = [name for name in names if name.split(".")[0] == stem]
    if alike:
        return f"; beside it lies {', '.join(alike[:5])}"
    return f"; there are {', '.join(names[:5])}" if names else ""
