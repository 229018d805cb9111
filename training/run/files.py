"""Files and directories that are whole under their names, or not there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def write_text(file: Path, text: str) -> None:
    """Writes a file so that it is either whole under its name or not there."""
    temporary = file.with_name(f"{file.name}.partial")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
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
