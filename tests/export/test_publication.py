"""Artefacts appear whole or not at all."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.command_line import CommandError, UsageError
from export.publication import published, version_directory, versions
from tests.paths import REPOSITORY


def test_the_folder_gets_its_name_at_the_end(tmp_path: Path) -> None:
    final = tmp_path / "a" / "b" / "1"
    with published(final) as folder:
        (folder / "file").write_text("x")
        assert not final.exists()
        # A server polls for names that are numbers.
        assert versions(final.parent) == {}
    assert [entry.name for entry in final.parent.iterdir()] == ["1"]
    assert (final / "file").read_text() == "x"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_after_an_error(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def fail() -> None:
        with published(tmp_path / "a" / "1") as folder:
            (folder / "file").write_text("x")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    def fill() -> None:
        with published(tmp_path / "out"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CommandError, match=r"out: No space left on device"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    final = tmp_path / "out"
    final.mkdir()
    (final / "mine").write_text("x")
    with pytest.raises(UsageError, match="exists"), published(final):
        pytest.fail("entered")
    with pytest.raises(UsageError, match="exists"), published(final / "mine"):
        pytest.fail("entered")
    with pytest.raises(UsageError, match="is a file"), published(final / "mine" / "1"):
        pytest.fail("entered")
    assert (final / "mine").read_text() == "x"


def test_a_folder_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    final = tmp_path / "1"

    def race() -> None:
        with published(final) as folder:
            (folder / "file").write_text("mine")
            final.mkdir()
            (final / "file").write_text("theirs")

    with pytest.raises(UsageError, match="appeared"):
        race()
    assert (final / "file").read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [final]


def test_what_a_killed_export_left_goes_with_the_next(tmp_path: Path) -> None:
    final = tmp_path / "out"
    started = tmp_path / "started"
    program = (
        "import pathlib, sys, time\n"
        "from export.publication import published\n"
        "with published(pathlib.Path(sys.argv[1])) as folder:\n"
        "    (folder / 'file').write_text('half')\n"
        "    pathlib.Path(sys.argv[2]).write_text(folder.name)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, final, started], cwd=REPOSITORY
    ) as process:
        while not (started.exists() and started.read_text()):
            assert process.poll() is None
            time.sleep(0.01)
        theirs = tmp_path / started.read_text()
        # While it runs, its folder is its own, and another export has another one.
        with published(final) as folder:
            assert folder != theirs
            assert (theirs / "file").read_text() == "half"
            (folder / "file").write_text("whole")
        process.kill()
    (final / "file").unlink()
    assert theirs.exists()
    with published(final) as folder:
        assert not theirs.exists()
        (folder / "file").write_text("whole")
    assert sorted(tmp_path.iterdir()) == [final, started]
    assert (final / "file").read_text() == "whole"


@given(st.sets(st.integers(1, 2**62), max_size=5))
def test_the_next_version_is_after_all_others(
    tmp_path_factory: pytest.TempPathFactory, taken: set[int]
) -> None:
    base = tmp_path_factory.mktemp("base")
    for number in taken:
        (base / str(number)).mkdir()
    assert version_directory(base, None).name == str(max(taken, default=0) + 1)
    for number in taken:
        with pytest.raises(UsageError, match="exists"):
            version_directory(base, f"00{number}")


def test_a_file_is_no_base(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        version_directory(tmp_path / "base", None)
