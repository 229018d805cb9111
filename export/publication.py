"""Artefacts appear under their final name whole, or not at all."""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.command_line import CommandError, UsageError

_MAX_VERSION = 2**63 - 1


@contextmanager
def published(final: Path) -> Iterator[Path]:
    """Gives a folder to write into, which then gets the name `final`.

    TensorFlow Serving polls for folders whose names are numbers and would load a half
    written one, so the folder has a name that is none.

    Raises:
        UsageError: if `final` exists and is more than an empty folder.
    """
    if final.exists() and not (final.is_dir() and not any(final.iterdir())):
        raise UsageError(f"--output: {final} exists. Expected a new directory")
    with working_folder(final) as partial:
        yield partial
        try:
            partial.rename(final)
        except OSError as error:
            raise UsageError(
                f"--output: {final} appeared while the export ran ({error})"
            ) from error


@contextmanager
def working_folder(final: Path) -> Iterator[Path]:
    """Gives a hidden folder beside `final`, and removes it where it still is.

    Whatever goes wrong, parents made for it are removed too; what an export that was
    killed left is removed by the next one of that name.

    Raises:
        UsageError: if a parent is a file.
        CommandError: if writing fails, a full disk for example.
    """
    made = [parent for parent in final.parents if not parent.exists()]
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(
            f"--output: {error.filename} is a file. Expected a directory"
        ) from error
    _remove_left_over(final)
    partial, lock = _locked_folder(final)
    try:
        yield partial
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            if not any(parent.iterdir()):
                parent.rmdir()
        if isinstance(error, OSError) and error.filename is None:
            # What writes through an open file does not say which.
            raise CommandError(f"--output: {final}: {error.strerror}") from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(lock)


def _locked_folder(final: Path) -> tuple[Path, int]:
    """Makes a folder beside `final`, locked while this process has it open."""
    while True:
        partial = final.with_name(f"{_prefix(final)}{secrets.token_hex(4)}")
        partial.mkdir()
        lock = os.open(partial, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if partial.exists():  # no other export took it for left over meanwhile
            return partial, lock
        os.close(lock)


def _remove_left_over(final: Path) -> None:
    """Removes folders of exports to `final` whose processes are gone."""
    for folder in final.parent.iterdir():
        if not folder.name.startswith(_prefix(final)):
            continue
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # gone meanwhile, or nothing that an export made
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # another export is at work in it
        finally:
            os.close(lock)


def _prefix(final: Path) -> str:
    return f".{final.name}.partial-"


def version_directory(base: Path, version: int | str | None) -> Path:
    """Returns where a version goes: ``BASE/NUMBER``.

    Args:
        base: the model's folder.
        version: its number, or None for the one after the highest there.

    Raises:
        UsageError: if the version is no positive integer, or is there already.
    """
    if base.exists() and not base.is_dir():
        raise UsageError(f"--output: {base} is a file. Expected a directory")
    taken = versions(base)
    if version is None:
        return base / str(max(taken, default=0) + 1)
    if not re.fullmatch("[0-9]+", str(version)) or not (
        1 <= int(version) <= _MAX_VERSION
    ):
        raise UsageError(
            "--version: expected a positive integer, because TensorFlow Serving looks "
            f"for folders with such names. Received: {version!r}"
        )
    if int(version) in taken:
        raise UsageError(
            f"--version: {taken[int(version)]} exists. Expected a new number"
        )
    return base / str(int(version))


def versions(base: Path) -> dict[int, Path]:
    """Returns the versions in a model's folder, as TensorFlow Serving would see them.

    Every name that parses as an integer counts, ``007`` included.
    """
    if not base.is_dir():
        return {}
    return {
        int(path.name): path
        for path in base.iterdir()
        if path.is_dir() and re.fullmatch("-?[0-9]+", path.name)
    }
