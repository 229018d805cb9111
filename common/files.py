"""Files and directories that are whole under their names, or not there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def write_text(file: Path, text: str) -> None:
    """Writes a UTF-8 file so that it is either whole under its name or not there."""
    write_bytes(file, text.encode("utf-8"))


def write_bytes(file: Path, content: bytes) -> None:
    """Writes a file so that it is either whole under its name or not there."""
    temporary = file.with_name(f"{file.name}.partial")
    temporary.write_bytes(content)
    finish_file(temporary, file)


def finish_file(temporary: Path, file: Path) -> None:
    """Makes sure that a written file is on the disk, then gives it its name."""
    with temporary.open("rb") as stream:
        os.fsync(stream.fileno())
    temporary.replace(file)


def write_directory(target: Path, write: Callable[[Path], object]) -> None:
    """Fills a directory by `write`, so that it is whole whenever it has its name.

    An existing `target` is replaced; only between two renames is it not there.

    Args:
        target: the final directory.
        write: called with the path of a temporary directory beside it.
    """
    partial = target.with_name(f"{target.name}.partial")
    old = target.with_name(f"{target.name}.old")
    for left_over in (partial, old):
        shutil.rmtree(left_over, ignore_errors=True)
    partial.mkdir(parents=True)
    write(partial)
    if target.exists():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)
