"""Apache Beam: the shards that one machine makes, and the same messages."""

import csv
import gzip
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from training.data import corpus
from training.data.examples import ExampleOptions
from training.data.manifest import DataManifest
from training.data.preparation import PrepareOptions, prepare
from training.data.verification import verify
from training.data.vocabulary_training import DocumentSample, VocabularyOptions

pytest.importorskip("apache_beam", reason="the extra 'beam' is not installed")

from apache_beam.io.filesystem import FileMetadata, FileSystem

WORDS = [f"w{number}" for number in range(200)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of several formats, in several groups, with several chunks each."""
    monkeypatch.setattr(corpus, "GROUP_BYTES", 60_000)
    monkeypatch.setattr(corpus, "CHUNK_BYTES", 20_000)
    texts = [
        "\n".join(
            " ".join(WORDS[(number * 7 + line * 3 + i) % 200] for i in range(5 + line))
            for line in range(1 + number % 9)
        )
        for number in range(900)
    ]
    texts[5] = texts[4]
    texts[6] = "zebra naïve zebra \0"
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("\n\n".join(texts[:400]))
    (folder / "b.txt.gz").write_bytes(
        gzip.compress("\n\n".join(texts[400:600]).encode())
    )
    with (folder / "c.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts[600:])])
    write_vocabulary(tmp_path / "words.txt", [*SPECIAL_TOKENS, *WORDS])
    return tmp_path


def _prepare(
    folder: Path, name: str, runner: str | None, **changes: Any
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "inputs": [str(folder / "corpus")],
        "output": folder / name,
        "vocabulary": folder / "words.txt",
        "examples": ExampleOptions(32),
        "held_out": 0.1,
        "seed": 3,
        "shard_bytes": 14_000,
        "runner": runner,
        "workers": None if runner else 1,
    }
    return prepare(PrepareOptions(**(values | changes)))


def _content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_direct_runner_makes_the_same_data(folder: Path) -> None:
    """Bytes of shards, vocabulary, index, report and picture."""
    results = [
        _prepare(folder, f"{runner}", runner) for runner in (None, "DirectRunner")
    ]
    local, beam = (_content(folder / f"{name}") for name in (None, "DirectRunner"))
    assert beam.keys() == local.keys()
    assert {name for name in beam if beam[name] != local[name]} == set()
    manifest = DataManifest.load(folder / "DirectRunner")
    verify(manifest)
    assert len(manifest.split("train")) > 3
    assert len(manifest.split("held_out")) > 1
    volatile = {"output", "seconds", "megabytes_per_second"}
    local_result, beam_result = (
        {name: value for name, value in result.items() if name not in volatile}
        for result in results
    )
    assert beam_result == local_result
    assert beam_result["duplicate_documents"] > 0
    assert beam_result["unknown_fraction"] > 0
    assert not list(folder.glob(".*partial"))


def test_vocabulary_and_official_mode_are_the_same(folder: Path) -> None:
    """Training the vocabulary on a sample, and files as a whole."""
    for output, runner in (("one", None), ("two", "DirectRunner")):
        _prepare(
            folder,
            output,
            runner,
            vocabulary=None,
            training_vocabulary=VocabularyOptions(150, sample_bytes=30_000),
            official=True,
            seed=4,
        )
    assert _content(folder / "one") == _content(folder / "two")


def test_samples_merge_to_the_sample_of_the_whole() -> None:
    documents = [f"document {number}".encode() * 10 for number in range(600)]
    whole = DocumentSample(10_000)
    parts = [DocumentSample(10_000) for _ in range(7)]
    for number, document in enumerate(documents):
        whole.add(document, (number,))
        parts[number % 7].add(document, (number,))
    merged = DocumentSample(10_000)
    for part in reversed(parts):
        merged.merge(part)
    assert merged.documents() == whole.documents()
    assert 1000 < sum(map(len, merged.documents())) <= 10_000


class _Store(FileSystem):  # type: ignore[misc]
    """A store of objects, as behind ``gs://``: no folders, and no rename of many."""

    root = Path()

    @classmethod
    def scheme(cls) -> str:
        return "teststore"

    def _local(self, url: str) -> Path:
        return self.root / url.removeprefix("teststore://")

    def join(self, base: str, *paths: str) -> str:
        return "/".join([base.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        pass

    def has_dirs(self) -> bool:
        return False

    def _list(self, path: str) -> Iterator[FileMetadata]:
        start = self._local(path)
        for found in sorted(self.root.rglob("*")):
            if found.is_file() and str(found).startswith(str(start)):
                url = f"teststore://{found.relative_to(self.root)}"
                yield FileMetadata(url, found.stat().st_size, found.stat().st_mtime)

    def create(self, path: str, *_: Any, **__: Any) -> Any:
        self._local(path).parent.mkdir(parents=True, exist_ok=True)
        return self._local(path).open("wb")

    def open(self, path: str, *_: Any, **__: Any) -> Any:
        return self._local(path).open("rb")

    def copy(self, sources: list[str], targets: list[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            shutil.copy(self._local(source), self._local(target))

    def rename(self, sources: list[str], targets: list[str]) -> None:
        self.copy(sources, targets)
        self.delete(sources)

    def exists(self, path: str) -> bool:
        return self._local(path).exists()

    def size(self, path: str) -> int:
        return self._local(path).stat().st_size

    def last_updated(self, path: str) -> float:
        return self._local(path).stat().st_mtime

    def checksum(self, path: str) -> str:
        return str(self.size(path))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), self.last_updated(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            local = self._local(path)
            if local.is_dir():
                shutil.rmtree(local)
            else:
                os.unlink(local)


def test_addresses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input and output behind addresses: the index comes last, nothing else stays."""
    monkeypatch.setattr(_Store, "root", folder / "store")
    shutil.copytree(folder / "corpus", folder / "store" / "bucket" / "corpus")
    order = []
    rename = _Store.rename

    def recorded(self: _Store, sources: list[str], targets: list[str]) -> None:
        order.extend(targets)
        rename(self, sources, targets)

    monkeypatch.setattr(_Store, "rename", recorded)
    inputs = ["teststore://bucket/corpus/*"]
    output = "teststore://bucket/data"
    _prepare(folder, "", "DirectRunner", inputs=inputs, output=output)
    _prepare(folder, "local", None)
    stored = folder / "store" / "bucket" / "data"
    files = _content(stored)
    assert files == _content(folder / "local")
    assert order[-1] == f"{output}/index.json"
    with pytest.raises(UsageError, match="the folder isn't empty"):
        _prepare(folder, "", "DirectRunner", inputs=inputs, output=output)
    assert _content(stored) == files
    (stored / "stale").write_text("")
    _prepare(folder, "", "DirectRunner", inputs=inputs, output=output, overwrite=True)
    assert _content(stored) == files
    with pytest.raises(UsageError, match="no such file"):
        _prepare(folder, "x", "DirectRunner", inputs=["teststore://bucket/none*"])


def test_mistakes_are_named(folder: Path) -> None:
    with pytest.raises(UsageError, match="--runner NoRunner"):
        _prepare(folder, "data", "NoRunner")
    with pytest.raises(UsageError, match="--workers is for one machine"):
        _prepare(folder, "data", "DirectRunner", workers=2)
    with pytest.raises(UsageError, match="--runner-arguments needs --runner"):
        _prepare(folder, "data", None, runner_arguments=["--a=b"])
    with pytest.raises(UsageError, match="--input nostore://x/y"):
        _prepare(folder, "data", "DirectRunner", inputs=["nostore://x/y"])
    (folder / "corpus" / "d.txt.gz").write_bytes(b"not gzip")
    with pytest.raises((UsageError, CommandError), match=r"d\.txt\.gz"):
        _prepare(folder, "data", "DirectRunner")
    for path in (folder / "corpus").iterdir():
        path.unlink()
    (folder / "corpus" / "e.txt").write_text("\n \n")
    with pytest.raises(UsageError, match="corpus is empty"):
        _prepare(folder, "data", "DirectRunner")
    assert not (folder / "data").exists()
    assert not list(folder.glob(".*partial"))


def test_a_missing_library_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UsageError, match="pip install 'apache-beam"):
        _prepare(folder, "data", "DirectRunner")
