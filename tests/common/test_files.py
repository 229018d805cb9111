"""Files and directories that are whole or not there."""

from pathlib import Path

import pytest

from common.files import write_bytes, write_directory, write_text
from common.hashes import content_sha256, file_sha256


def test_a_file_replaces_an_older_one(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    write_text(file, "é one\n")
    write_text(file, "two\n")
    assert file.read_bytes() == b"two\n"
    write_bytes(file, b"\x00\xff")
    assert file.read_bytes() == b"\x00\xff"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_a_directory_that_fails_leaves_the_older_one(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write_directory(target, lambda path: write_text(path / "a", "1"))

    def fail(path: Path) -> None:
        write_text(path / "b", "2")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_directory(target, fail)
    assert [p.name for p in target.iterdir()] == ["a"]
    write_directory(target, lambda path: write_text(path / "c", "3"))
    assert [p.name for p in target.iterdir()] == ["c"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_hashes(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abc")
    assert file_sha256(file).startswith("ba7816bf8f01cfea414140de5dae2223")
    assert content_sha256({"a": 1, "b": [2]}) == content_sha256({"b": [2], "a": 1})
    assert content_sha256({"a": 1}) != content_sha256({"a": 2})
