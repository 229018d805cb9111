"""Finds corpus files and reads them as documents, whatever their format.

A document is bytes: UTF-8 text whose lines are its sentences or paragraphs. Bytes are
passed on as they were read; what can't be decoded is counted and dropped later.
"""

import glob
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from common.command_line import UsageError
from common.compression import decompressed, split_suffixes
from training.data import document_formats

CHUNK_BYTES = 4 << 20
"""Text is handled in chunks of about this size. Records depend on it (each chunk has
its own random stream), so it is part of the format, not an option."""

GROUP_BYTES = 64 << 20
"""Files are read in groups of about this size on disk. A chunk never reaches over the
end of a group, so that groups can be read on different machines. Part of the format."""

TEXT_SUFFIXES = (".txt", ".text")
TABLE_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
ARCHIVE_SUFFIX = ".tar"


@dataclass
class Chunk:
    """A run of documents that is handled as a whole.

    Attributes:
        group: the number of its group of files, from 0.
        index: its place within the group, from 0.
        documents: the documents.
    """

    group: int
    index: int
    documents: list[bytes] = field(default_factory=list)

    @property
    def stream(self) -> int:
        """A number of its own, for random draws; 0 for the first chunk."""
        return self.group << 24 | self.index


class Source(Protocol):
    """A part of the corpus that is read from its beginning to its end."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def size(self) -> int:
        """Bytes on disk, or 0 if that is unknown."""

    @property
    def alone(self) -> bool:
        """Whether it is a group of its own, whatever its size."""

    def identity(self) -> list[Any]:
        """What changes when its content does, as JSON can hold it."""

    def documents(
        self, text_field: str, on_read: Callable[[int], None]
    ) -> Iterator[bytes]:
        """Reads the documents; `on_read` gets the position on disk, now and then."""


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus.

    Attributes:
        path: where it is.
        name: how reports call it: the path as the user gave it.
    """

    path: Path
    name: str
    alone: bool = False

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size

    def identity(self) -> list[Any]:
        """Path, size and time of the last change."""
        stat = self.path.stat()
        return [str(self.path.resolve()), stat.st_size, stat.st_mtime_ns]

    def documents(
        self, text_field: str, on_read: Callable[[int], None]
    ) -> Iterator[bytes]:
        """See `read_documents`."""
        return read_documents(self, text_field, on_read)


def find_files(inputs: Sequence[str]) -> list[CorpusFile]:
    """Returns the files that `inputs` name: files, folders or glob patterns.

    Folders are searched to the bottom for known suffixes; a file that is named itself
    is read as plain text if its suffix is unknown. The order is that of `inputs`, and
    by name within a folder or pattern, so it is the same on every machine.

    Raises:
        UsageError: for a path that does not exist and a pattern or folder without a
            file to read.
    """
    files: dict[Path, CorpusFile] = {}
    for given in inputs:
        path = Path(given).expanduser()
        if path.is_file():
            paths = [path]
        elif path.is_dir():
            paths = sorted(p for p in path.rglob("*") if p.is_file() and _is_known(p))
            if not paths:
                raise UsageError(
                    f"--input {given}: the folder holds no file with a known suffix "
                    f"({_known_suffixes()}, also compressed)."
                )
        elif glob.has_magic(given):
            paths = sorted(
                p
                for p in map(Path, glob.glob(str(path), recursive=True))
                if p.is_file()
            )
            if not paths:
                raise UsageError(f"--input {given}: the pattern matches no file.")
        else:
            raise UsageError(f"--input {given}: no such file or folder.")
        for file in paths:
            files.setdefault(file.resolve(), CorpusFile(file, str(file)))
    return list(files.values())


def read_documents(
    file: CorpusFile,
    text_field: str = "text",
    on_read: Callable[[int], None] = lambda position: None,
) -> Iterator[bytes]:
    """Reads the documents of one file.

    Args:
        file: the file; its suffix tells format and compression.
        text_field: name of the column or JSON field that holds the text.
        on_read: called with the position in the file on disk, now and then.

    Yields:
        Documents with something other than white space in them.

    Raises:
        UsageError: for a damaged file, naming it and the line.
    """
    with file.path.open("rb") as raw:
        yield from documents_of(raw, file.name, text_field, on_read)


def documents_of(
    raw: IO[bytes],
    name: str,
    text_field: str,
    on_read: Callable[[int], None] = lambda position: None,
) -> Iterator[bytes]:
    """Reads the documents of an open file; see `read_documents`."""
    last = 0
    for document in _documents_of(raw, name, text_field):
        if not document.isspace() and document:
            yield document
        position = raw.tell()
        if position != last:
            on_read(position)
            last = position


def grouped(sources: Sequence[Source], apart: bool = False) -> list[list[Source]]:
    """Divides a corpus into groups of about `GROUP_BYTES` on disk, in order.

    Args:
        sources: the corpus.
        apart: make each source a group.
    """
    groups: list[list[Source]] = []
    size, closed = 0, True
    for source in sources:
        if closed or source.alone:
            groups.append([])
            size = 0
        groups[-1].append(source)
        size += source.size
        closed = apart or source.alone or size >= GROUP_BYTES
    return groups


def chunks(
    sources: Sequence[Source],
    text_field: str = "text",
    on_read: Callable[[int], None] = lambda count: None,
    whole_files: bool = False,
) -> Iterator[Chunk]:
    """Divides the documents of a corpus into chunks of about `CHUNK_BYTES`.

    Args:
        sources: what to read, in order.
        text_field: see `read_documents`.
        on_read: called with the number of bytes read from disk since its last call.
        whole_files: make each file one chunk, however large.
    """
    for index, group in enumerate(grouped(sources, whole_files)):
        yield from group_chunks(index, group, text_field, on_read, whole_files)


def group_chunks(
    index: int,
    group: Sequence[Source],
    text_field: str = "text",
    on_read: Callable[[int], None] = lambda count: None,
    whole: bool = False,
) -> Iterator[Chunk]:
    """Divides the documents of the group with number `index` into chunks."""
    chunk, size = Chunk(index, 0), 0
    for source in group:
        before = 0

        def progress(position: int) -> None:
            nonlocal before
            on_read(position - before)
            before = position

        for document in source.documents(text_field, progress):
            chunk.documents.append(document)
            size += len(document)
            if size >= CHUNK_BYTES and not whole:
                yield chunk
                chunk, size = Chunk(index, chunk.index + 1), 0
        on_read(source.size - before)
    if chunk.documents:
        yield chunk


def _documents_of(raw: IO[bytes], name: str, text_field: str) -> Iterator[bytes]:
    kind, compression = split_suffixes(name)
    stream = decompressed(raw, compression)
    try:
        if kind == ARCHIVE_SUFFIX:
            yield from _archive_documents(stream, name, text_field)
        elif kind in (".jsonl", ".ndjson"):
            yield from document_formats.json_lines(stream, name, text_field)
        elif kind == ".csv":
            yield from document_formats.csv_rows(stream, name, text_field)
        elif kind == ".tsv":
            yield from document_formats.tsv_rows(stream, name, text_field)
        elif kind == ".parquet":
            yield from document_formats.parquet_rows(stream, name, text_field)
        else:
            yield from document_formats.text_documents(stream)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise UsageError(
            f"{name}: the file can't be read to its end: {error}. Expected a sound "
            f"{compression or kind or 'text'} file."
        ) from error


def _archive_documents(
    stream: IO[bytes], name: str, text_field: str
) -> Iterator[bytes]:
    """Reads an archive member by member; members may be archives themselves.

    Each text file in an archive is one document, as in OpenWebText: blank lines in it
    are between paragraphs.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                member_name = f"{name}/{member.name}"
                kind, compression = split_suffixes(member.name)
                if compression and not kind:
                    # OpenWebText names the inner archives "*.xz", without ".tar".
                    kind = ARCHIVE_SUFFIX
                if kind == ARCHIVE_SUFFIX:
                    yield from _archive_documents(
                        decompressed(content, compression), member_name, text_field
                    )
                elif kind in TABLE_SUFFIXES:
                    yield from _documents_of(content, member_name, text_field)
                else:
                    yield from document_formats.whole_text(
                        decompressed(content, compression)
                    )
    except tarfile.TarError as error:
        raise UsageError(f"{name}: not a sound tar archive: {error}.") from error


def _is_known(path: Path) -> bool:
    kind, _ = split_suffixes(path.name)
    return kind in (*TEXT_SUFFIXES, *TABLE_SUFFIXES, ARCHIVE_SUFFIX)


def _known_suffixes() -> str:
    return ", ".join((*TEXT_SUFFIXES, *TABLE_SUFFIXES, ARCHIVE_SUFFIX))
