"""Files behind addresses (``gs://``, ``hdfs://``), through Beam's file systems."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from common.command_line import UsageError
from training.data.corpus import documents_of
from training.data.manifest import INDEX_FILE

_PLAIN = CompressionTypes.UNCOMPRESSED
_COPIED_AT_ONCE = 1 << 20


def is_address(name: str) -> bool:
    """Tells whether `name` is an address, not a path of this machine."""
    return "://" in name


@dataclass(frozen=True)
class RemoteFile:
    """A file of the corpus behind an address.

    Attributes:
        name: its address.
        size: bytes on disk.
        changed: seconds since 1970.
    """

    name: str
    size: int
    changed: float
    alone: bool = False

    def identity(self) -> list[Any]:
        """Address, size and time of the last change."""
        return [self.name, self.size, self.changed]

    def documents(
        self, text_field: str, on_read: Callable[[int], None]
    ) -> Iterator[bytes]:
        """Reads the documents."""
        raw: IO[bytes] = FileSystems.open(self.name, compression_type=_PLAIN)
        with raw:
            yield from documents_of(raw, self.name, text_field, on_read)


def remote_files(given: str) -> list[RemoteFile]:
    """Returns the files that an address or a pattern of addresses names, by name.

    Raises:
        UsageError: if there is none, or the file system isn't known.
    """
    try:
        (match,) = FileSystems.match([given])
    except (BeamIOError, ValueError) as error:
        raise UsageError(f"--input {given}: {error}") from error
    files = [
        RemoteFile(file.path, file.size_in_bytes, file.last_updated_in_seconds)
        for file in sorted(match.metadata_list, key=lambda file: str(file.path))
    ]
    if not files:
        raise UsageError(f"--input {given}: no such file; a folder needs a pattern.")
    return files


def write_remote(path: str, content: bytes) -> None:
    """Writes a file under a temporary name, then renames it."""
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    with FileSystems.create(temporary, compression_type=_PLAIN) as file:
        file.write(content)
    _rename(temporary, path)


def upload(local: Path, path: str) -> None:
    """Copies a file of this machine to `path`, under a temporary name first."""
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    with (
        local.open("rb") as source,
        FileSystems.create(temporary, compression_type=_PLAIN) as target,
    ):
        while block := source.read(_COPIED_AT_ONCE):
            target.write(block)
    _rename(temporary, path)


def read_remote(path: str) -> bytes:
    """Reads a file."""
    with FileSystems.open(path, compression_type=_PLAIN) as file:
        content: bytes = file.read()
    return content


def _rename(source: str, target: str) -> None:
    # A second try of the same work may have written the same bytes before.
    if FileSystems.exists(target):
        FileSystems.delete([target])
    FileSystems.rename([source], [target])


class RemoteFolder:
    """A data directory behind an address; it counts as one when its index is there.

    Stores of objects can't rename folders. Files therefore get their names one by one,
    each after it was written whole, and the index comes last.

    Args:
        output: the address.
        overwrite: whether a non-empty output may be replaced.

    Raises:
        UsageError: if there are files behind the address.
    """

    def __init__(self, output: str, overwrite: bool) -> None:
        self.result = output.rstrip("/")
        self.pieces = f"{self.result}/.partial"
        self._index: bytes | None = None
        if self._files() and not overwrite:
            raise UsageError(
                f"--output {output}: the folder isn't empty. Nothing was changed; give "
                "another one, or --overwrite to replace it."
            )

    def begin(self, fingerprint: Mapping[str, Any]) -> bool:
        """Removes what an overwritten or failed run left; nothing is resumed."""
        if files := self._files():
            FileSystems.delete(files)
        FileSystems.mkdirs(self.pieces)
        return False

    def read(self, name: str) -> bytes | None:
        """Returns None: a run begins with nothing."""
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of the result; keeps the index for the end."""
        if name == INDEX_FILE:
            self._index = content
        else:
            write_remote(f"{self.result}/{name}", content)

    def publish(self) -> None:
        """Writes the index, which makes the folder a data directory."""
        self.discard()
        if self._index is not None:
            write_remote(f"{self.result}/{INDEX_FILE}", self._index)

    def discard(self) -> None:
        """Removes what is no part of the result."""
        if FileSystems.exists(self.pieces):
            FileSystems.delete([self.pieces])

    def close(self) -> None:
        """Does nothing: there is no lock."""

    def _files(self) -> list[str]:
        try:
            (match,) = FileSystems.match([f"{self.result}/**"])
        except ValueError as error:
            raise UsageError(f"--output {self.result}: {error}") from error
        except BeamIOError:
            return []
        return [file.path for file in match.metadata_list]
