"""Data sets by name, read from a folder of this machine through the library."""

import json
import sys
from pathlib import Path

import pytest

from common.command_line import UsageError
from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from training.data.corpus import chunks, grouped
from training.data.examples import ExampleOptions
from training.data.hub_datasets import hub_sources
from training.data.preparation import PrepareOptions, prepare


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of three files, with a second split."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "dataset"
    data.mkdir()
    for number in range(3):
        rows = [{"body": f"w{number} w{row}", "id": row} for row in range(20)]
        rows += [{"body": "  ", "id": 0}, {"body": None, "id": 1}]
        lines = "\n".join(map(json.dumps, rows))
        (data / f"train-{number}.jsonl").write_text(lines)
    (data / "test-0.jsonl").write_text(json.dumps({"body": "held", "id": 3}))
    return data


EXPECTED = [f"w{number} w{row}" for number in range(3) for row in range(20)]


def test_rows_are_documents(folder: Path) -> None:
    sources = hub_sources(f"hf:{folder}")
    assert len(sources) == len(grouped(sources)) == 3
    found = [one.decode() for c in chunks(sources, "body") for one in c.documents]
    assert found == EXPECTED
    (test,) = hub_sources(f"hf:{folder}::test")
    assert list(test.documents("body", lambda _: None)) == [b"held"]
    assert sources[0].name == f"hf:{folder}::train"
    identities = [source.identity() for source in [*sources, test]]
    assert len({str(one) for one in identities}) == 4
    (folder / "train-0.jsonl").write_text(json.dumps({"body": "new", "id": 0}))
    assert hub_sources(f"hf:{folder}")[0].identity() != identities[0]


def test_prepare_reads_them_beside_files(folder: Path, tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(20)]
    write_vocabulary(tmp_path / "words.txt", [*SPECIAL_TOKENS, *words])
    rows = "\n".join(json.dumps({"body": text}) for text in EXPECTED)
    (tmp_path / "same.jsonl").write_text(rows)
    results = [
        prepare(
            PrepareOptions(
                inputs=[given],
                output=tmp_path / name,
                vocabulary=tmp_path / "words.txt",
                examples=ExampleOptions(16),
                held_out=0.2,
                text_field="body",
                workers=1,
            )
        )
        for name, given in (("hub", f"hf:{folder}"), ("file", f"{tmp_path}/same.jsonl"))
    ]
    same = ("documents", "tokens", "examples", "held_out_documents", "bytes")
    assert [results[0][name] for name in same] == [results[1][name] for name in same]
    assert results[0]["documents"] == 60


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ("hf:{}::dev", "body", "Bad split: dev"),
        ("hf:{}:other:train", "body", "other"),
        ("hf:", "body", "expected hf:NAME"),
        ("hf:a:b:c:d", "body", "expected hf:NAME"),
        ("hf:no/such-data-set", "body", "no/such-data-set"),
        ("hf:{}", "text", "row 0: expected text in column 'text'.*'body': 'str'"),
        ("hf:{}", "id", "row 0: expected text in column 'id'.*'id': 'int'"),
    ],
)
def test_mistakes_are_named(folder: Path, given: str, field: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(chunks(hub_sources(given.format(folder)), field))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match="pip install datasets"):
        hub_sources("hf:wikitext")
