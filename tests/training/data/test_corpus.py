"""Corpus files: every format and compression, and what damaged ones report."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.command_line import UsageError
from training.data import corpus, document_formats
from training.data.corpus import (
    CHUNK_BYTES,
    CorpusFile,
    chunks,
    find_files,
    read_documents,
)
from training.data.text_anomalies import clean_documents

TEXTS = ['First "line"\nsecond line', "It's a d\u00f6cument, of one line"]
WRAPPERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: _zst(content),
}


def _zst(content: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def _read(path: Path, text_field: str = "text") -> list[str]:
    file = CorpusFile(path, str(path))
    return [document.decode() for document in read_documents(file, text_field)]


def _parquet(texts: list[str]) -> bytes:
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({"id": list(range(len(texts))), "text": texts})
    pyarrow.parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def _csv(texts: list[str]) -> bytes:
    rows = ["id,text"]
    rows += ['{},"{}"'.format(i, t.replace('"', '""')) for i, t in enumerate(texts)]
    return "\r\n".join(rows).encode()


CONTENTS: dict[str, bytes] = {
    ".txt": ("\n\n" + "\n \t\n\n".join(TEXTS) + "\n\n").encode(),
    ".jsonl": "\n".join(json.dumps({"text": t, "n": 1}) for t in TEXTS).encode(),
    ".csv": _csv(TEXTS),
    ".parquet": _parquet(TEXTS),
}


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst", ""])
@pytest.mark.parametrize("kind", CONTENTS)
def test_formats(tmp_path: Path, kind: str, compression: str) -> None:
    path = tmp_path / f"corpus{kind}{compression}"
    path.write_bytes(WRAPPERS[compression](CONTENTS[kind]))
    assert _read(path) == TEXTS


def test_tsv_quotes_mean_nothing(tmp_path: Path) -> None:
    """D11: as many documents as lines below the header, text unchanged."""
    texts = ['"starts with a quote', 'odd " number', "it's", '""', 'a "b" c']
    path = tmp_path / "corpus.tsv"
    path.write_text("id\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(texts)))
    assert _read(path) == texts


def test_text_field_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    path.write_text("body,text\nyes,no\n")
    assert _read(path, "body") == ["yes"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": 3}\n', r"a\.jsonl:2: .*'text'"),
        ("a.jsonl", b'{"text": "x"}\n\n{oops\n', r"a\.jsonl:3: expected a JSON object"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: .*list"),
        ("a.csv", b"body\nx\n", r"a\.csv:1: expected a column 'text'.*body"),
        ("a.csv", b"text,b\nx,1\ny\n", r"a\.csv:3: expected 2 columns.*Received: 1"),
        ("a.tsv", b"text\tb\nx\t1\ty\n", r"a\.tsv:2: expected 2 columns.*Received: 3"),
        ("a.parquet", b"PAR1 no", r"a\.parquet: not a sound Parquet"),
        ("a.txt.gz", b"not gzip", r"a\.txt\.gz: the file can't be read to its end"),
        ("a.txt.xz", lzma.compress(b"x" * 9999)[:-9], r"a\.txt\.xz: the file can't"),
        ("a.tar", b"not a tar" * 100, r"a\.tar: not a sound tar archive"),
    ],
)
def test_damaged_files_are_named(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        _read(path)


def _tar(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_nested_archives_are_read_unextracted(tmp_path: Path) -> None:
    """OpenWebText: a tar of xz members, each a tar of texts, one document a text."""
    path = tmp_path / "openwebtext.tar.xz"
    inner = [
        lzma.compress(_tar({"1.txt": b"one\n\nstill one", "2.txt": b"two"})),
        lzma.compress(_tar({"3.txt": b"three", "empty.txt": b" \n"})),
    ]
    path.write_bytes(
        lzma.compress(
            _tar({f"openwebtext/subset{i}.xz": part for i, part in enumerate(inner)})
        )
    )
    assert _read(path) == ["one\n\nstill one", "two", "three"]


def test_files_folders_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.txt", "a.txt.gz", "deep/er/c.jsonl", "deep/notes.md", "d.dat"):
        (tmp_path / name).write_bytes(b"x")

    def names(*inputs: str) -> list[str]:
        given = [str(tmp_path / one) for one in inputs]
        return [str(f.path.relative_to(tmp_path)) for f in find_files(given)]

    everything = ["a.txt.gz", "b.txt", "deep/er/c.jsonl"]
    assert names("") == everything
    assert names("**/*.jsonl", "b.txt", "") == [
        "deep/er/c.jsonl",
        "b.txt",
        "a.txt.gz",
    ]
    assert names("d.dat") == ["d.dat"]  # named itself: plain text
    for missing, message in (
        ("none.txt", "no such file or folder"),
        ("*.parquet", "the pattern matches no file"),
        ("deep/er/empty", "no such file"),
    ):
        with pytest.raises(UsageError, match=message):
            names(missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file with a known suffix"):
        names("empty")


LINE = st.binary(max_size=12).filter(lambda line: b"\n" not in line)


@settings(max_examples=200, deadline=None)
@given(st.lists(LINE, max_size=30), st.integers(1, 9), st.integers(4, 40))
def test_text_documents_lose_nothing(
    lines: list[bytes], block: int, limit: int
) -> None:
    """Whatever the block size: all that isn't white space, in order."""
    content = b"\n".join(lines)
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(document_formats, "_BLOCK_BYTES", block)
        patched.setattr(document_formats, "MAX_LINE_BYTES", limit)
        patched.setattr(document_formats, "MAX_DOCUMENT_BYTES", limit)
        documents = list(document_formats.text_documents(io.BytesIO(content)))
    white = b" \t\n\r\x0b\x0c"
    assert b"".join(documents).translate(None, white) == content.translate(None, white)
    assert all(document.strip() for document in documents)


def test_long_lines_are_divided_at_spaces_or_between_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(document_formats, "_BLOCK_BYTES", 16)
    monkeypatch.setattr(document_formats, "MAX_LINE_BYTES", 32)
    words = " ".join(f"word{i}" for i in range(50)).encode()
    (document,) = document_formats.text_documents(io.BytesIO(words))
    assert document.split() == words.split()
    assert len(document.split(b"\n")) > 5
    unbroken = "\u00e9\u4e2d\U0001f600".encode() * 40
    (document,) = document_formats.text_documents(io.BytesIO(unbroken))
    assert "".join(document.decode().split("\n")) == unbroken.decode()


def test_chunks_keep_order_and_size(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    texts = [f"{number} " + "x" * 100_000 for number in range(100)]
    path.write_text("\n\n".join(texts))
    read = []
    found = list(chunks(find_files([str(path)]), on_read=read.append))
    assert [(chunk.group, chunk.index) for chunk in found] == [(0, 0), (0, 1), (0, 2)]
    assert [chunk.stream for chunk in found] == [0, 1, 2]
    documents = [document.decode() for chunk in found for document in chunk.documents]
    assert documents == texts
    for chunk in found[:-1]:
        assert CHUNK_BYTES <= sum(map(len, chunk.documents)) < CHUNK_BYTES + 200_000
    assert sum(read) == path.stat().st_size
    (whole,) = chunks(find_files([str(path)]), whole_files=True)
    assert len(whole.documents) == 100


def test_anomalies_are_counted() -> None:
    documents = [
        b"fine",
        b"bad \xff\xfe byte \xe4\xb8",
        b"nul\0 bell\x07 \xc2\x85 \x7f",
    ]
    cleaned, counts = clean_documents(documents)
    assert cleaned[0] == b"fine"
    assert cleaned[1] == b"bad  byte "
    assert counts == {
        "undecodable_bytes": 4,
        "nul_characters": 1,
        "control_characters": 3,
    }


def test_chunks_do_not_cross_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups are read apart from each other, so they must give the chunks alone."""
    monkeypatch.setattr(corpus, "GROUP_BYTES", 1000)
    monkeypatch.setattr(corpus, "CHUNK_BYTES", 300)
    for number in range(12):
        texts = [f"{number} {line} " + "x" * 50 for line in range(1 + number)]
        (tmp_path / f"{number:02d}.txt").write_text("\n\n".join(texts))
    files = find_files([str(tmp_path)])
    groups = corpus.grouped(files)
    assert [file for group in groups for file in group] == files
    assert 2 < len(groups) < 12
    for group in groups[:-1]:
        sizes = [file.size for file in group]
        assert sum(sizes) >= 1000 > sum(sizes[:-1])
    whole = list(chunks(files))
    apart = [
        chunk
        for number in reversed(range(len(groups)))
        for chunk in reversed(list(corpus.group_chunks(number, groups[number])))
    ]
    assert apart[::-1] == whole
    assert len({chunk.stream for chunk in whole}) == len(whole) > len(groups)
    assert len(corpus.grouped(files, apart=True)) == 12


def test_a_line_of_100_megabytes(tmp_path: Path) -> None:
    """It is divided between words; memory holds a few megabytes of it."""
    path = tmp_path / "corpus.txt"
    word = b"abcdefghi "
    with path.open("wb") as file:
        for _ in range(100):
            file.write(word * 100_000)
        file.write(b"\n\nthe end")
    letters = spaces = 0
    tracemalloc.start()
    for chunk in chunks(find_files([str(path)])):
        size = sum(map(len, chunk.documents))
        assert size < CHUNK_BYTES + document_formats.MAX_DOCUMENT_BYTES
        for document in chunk.documents:
            assert document.startswith((b"abcdefghi", b" abcdefghi", b"the end"))
            assert document.endswith((b"abcdefghi", b"abcdefghi ", b"the end"))
            blank = document.count(b" ") + document.count(b"\n")
            letters += len(document) - blank
            spaces += blank
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert letters == 100 * 900_000 + 6
    assert abs(spaces - 100 * 100_000) < 200
    assert peak < 100e6
