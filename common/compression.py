"""Opens compressed files as byte streams: gz, bz2, xz and zst."""

import bz2
import gzip
import io
import lzma
from pathlib import PurePath
from typing import IO, cast

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def split_suffixes(name: str) -> tuple[str, str]:
    """Returns (format suffix, compression suffix) of a file name, both lower case.

    >>> split_suffixes("news.jsonl.xz")
    ('.jsonl', '.xz')
    """
    path = PurePath(name.lower())
    if path.suffix in (".tgz", ".txz"):
        return ".tar", {".tgz": ".gz", ".txz": ".xz"}[path.suffix]
    if path.suffix in COMPRESSION_SUFFIXES:
        return PurePath(path.stem).suffix, path.suffix
    return path.suffix, ""


def decompressed(raw: IO[bytes], compression: str) -> IO[bytes]:
    """Returns a readable stream of what `raw` holds.

    Args:
        raw: the compressed bytes.
        compression: ``".gz"``, ``".bz2"``, ``".xz"``, ``".zst"`` or ``""``.
    """
    if compression == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
    if compression == ".bz2":
        return cast(IO[bytes], bz2.BZ2File(raw, "rb"))
    if compression == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(raw, "rb"))
    if compression == ".zst":
        import pyarrow

        # The library reads ahead itself; BufferedReader adds what it lacks (peek).
        stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")
        return cast(IO[bytes], io.BufferedReader(stream, 1 << 20))
    return raw
