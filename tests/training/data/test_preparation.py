"""Preparation as a whole: what is in the shards, workers, reports, refusals."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf.vocabulary import SPECIAL_TOKENS
from tests.training.data.preparations import (
    WORDS,
    prepare_options,
    read_content,
    read_records,
    small_corpus,
)
from training.data.corpus import CHUNK_BYTES
from training.data.examples import ExampleOptions
from training.data.manifest import DataManifest
from training.data.preparation import prepare
from training.data.split_rank import split_rank
from training.data.verification import verify

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "examples"


def test_nothing_is_lost_and_held_out_is_apart(
    tmp_path: Path, vocabulary: Path
) -> None:
    corpus = small_corpus(tmp_path)
    output = tmp_path / "data"
    result = prepare(prepare_options(corpus, output, vocabulary))
    documents = corpus.read_text().strip().split("\n\n")
    held = [d for d in documents if split_rank("held_out", d.encode()) < 0.2]
    assert 0 < len(held) < len(documents)
    expected = {
        "train": Counter(" ".join(d for d in documents if d not in held).split()),
        "held_out": Counter(" ".join(held).split()),
    }
    tokens = [*SPECIAL_TOKENS, *WORDS, "."]
    for split, words in expected.items():
        records = read_records(output, split)
        found = Counter(tokens[one] for ids, _ in records for one in ids)
        specials = {name: found.pop(name) for name in ("[CLS]", "[SEP]")}
        assert found == words
        assert specials["[CLS]"] == len(records)
        assert specials["[SEP]"] == sum(1 + max(s) for _, s in records)
        for ids, segments in records:
            assert len(ids) == len(segments) <= 32
            assert ids[0] == 2
            assert ids[-1] == 3
            assert segments == sorted(segments)
    manifest = DataManifest.load(output)
    verify(manifest)
    records = read_records(output, "train")
    counted = np.bincount([one for ids, _ in records for one in ids], minlength=406)
    assert manifest.token_counts().dtype == np.int64
    np.testing.assert_array_equal(manifest.token_counts(), counted)
    assert result["documents"] == len(documents)
    assert result["held_out_documents"] == len(held)
    assert result["examples"] == manifest.num_examples("train")
    assert result["held_out_examples"] == manifest.num_examples("held_out")
    assert result["tokens"] == sum(sum(words.values()) for words in expected.values())
    assert result["unknown_fraction"] == 0.0
    assert result["bytes"] == sum(len(d) for d in documents)
    assert result["vocabulary_sha256"] == manifest.vocabulary_sha256
    assert not list(tmp_path.glob(".*partial"))


def test_no_example_crosses_documents_unless_asked(
    tmp_path: Path, vocabulary: Path
) -> None:
    """D01, with documents of disjoint words."""
    corpus = tmp_path / "two.txt"
    corpus.write_text("w1 w2 w1\n\nw3 w4 w3\n")
    for join in (False, True):
        output = tmp_path / f"data{join}"
        prepare(
            prepare_options(
                corpus,
                output,
                vocabulary,
                held_out=0.0,
                examples=ExampleOptions(32, join_documents=join),
            )
        )
        mixed = [
            bool({6, 7} & set(ids)) and bool({8, 9} & set(ids))
            for ids, _ in read_records(output, "train")
        ]
        assert any(mixed) == join


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.json")))
def test_official_mode(tmp_path: Path, name: str) -> None:
    """The command's own records are the official ones (in another order)."""
    from tests.paths import require_shared

    golden = json.loads((GOLDEN / name).read_text("utf-8"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(golden["lines"]) + "\n")
    output = tmp_path / "data"
    prepare(
        prepare_options(
            corpus,
            output,
            require_shared("data/vocab.lv-bert-repo-damaged.txt"),
            held_out=0.0,
            seed=golden["seed"],
            lowercase=golden["do_lower_case"],
            official=True,
            examples=ExampleOptions(
                golden["max_length"],
                join_documents=not golden["blanks_separate_docs"],
            ),
        )
    )
    expected = []
    for example in golden["examples"]:
        real = sum(example["input_mask"])
        expected.append((example["input_ids"][:real], example["segment_ids"][:real]))
    assert sorted(read_records(output, "train")) == sorted(expected)


def test_workers_and_shards_do_not_change_the_data(
    tmp_path: Path, vocabulary: Path
) -> None:
    corpus = tmp_path / "big.txt"
    text = small_corpus(tmp_path, 300).read_text()
    with corpus.open("w") as file:
        for number in range(3 * CHUNK_BYTES // len(text)):
            file.write(f"w{number % 400}\n\n{text}\n")
    one, two = tmp_path / "one", tmp_path / "two"
    prepare(prepare_options(corpus, one, vocabulary, workers=1, shard_bytes=1 << 20))
    prepare(prepare_options(corpus, two, vocabulary, workers=2, shard_bytes=1 << 20))
    assert read_content(one) == read_content(two)
    shards = DataManifest.load(one).split("train")
    assert len(shards) > 2
    assert [shard.file for shard in shards] == [
        f"train-{index:05d}-of-{len(shards):05d}.tfrecord"
        for index in range(len(shards))
    ]
    sizes = [shard.bytes for shard in shards]
    assert max(sizes) < 1.2 * min(sizes)


def test_shuffle_is_global_and_seeded(tmp_path: Path, vocabulary: Path) -> None:
    corpus = small_corpus(tmp_path, 300)
    contents = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare(prepare_options(corpus, tmp_path / name, vocabulary, seed=seed))
        contents[name] = read_records(tmp_path / name, "train")
    assert contents["a"] == contents["b"]
    assert contents["a"] != contents["c"]
    # The first words of a document say where in the corpus it was: not in order.
    order = [ids[1] for ids, _ in contents["a"]]
    assert order != sorted(order)


def test_a_finished_output_answers_from_its_result(
    tmp_path: Path, vocabulary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = small_corpus(tmp_path)
    output = tmp_path / "data"
    first = prepare(prepare_options(corpus, output, vocabulary))
    content = read_content(output)
    assert prepare(prepare_options(corpus, output, vocabulary)) == first
    assert "is finished already" in capsys.readouterr().err
    assert read_content(output) == content
    # Other options, another corpus, a changed directory: not that result.
    with pytest.raises(UsageError, match="the folder isn't empty"):
        prepare(prepare_options(corpus, output, vocabulary, seed=5))
    index = (output / "index.json").read_text()
    (output / "index.json").write_text(index + "\n")
    with pytest.raises(UsageError, match="the folder isn't empty"):
        prepare(prepare_options(corpus, output, vocabulary))
    (output / "index.json").write_text(index)
    assert prepare(prepare_options(corpus, output, vocabulary)) == first
    with corpus.open("a") as file:
        file.write("\n\nOne more document.\n")
    with pytest.raises(UsageError, match="the folder isn't empty"):
        prepare(prepare_options(corpus, output, vocabulary))


def test_non_empty_output_is_left_alone(tmp_path: Path, vocabulary: Path) -> None:
    """D13."""
    corpus = small_corpus(tmp_path)
    output = tmp_path / "data"
    output.mkdir()
    (output / "precious").write_text("keep me")
    with pytest.raises(UsageError, match="the folder isn't empty"):
        prepare(prepare_options(corpus, output, vocabulary))
    assert read_content(output) == {"precious": b"keep me"}
    # A failing run with --overwrite leaves it, too.
    with pytest.raises(UsageError, match="no such file"):
        prepare(prepare_options(tmp_path / "none", output, vocabulary, overwrite=True))
    assert read_content(output) == {"precious": b"keep me"}
    prepare(prepare_options(corpus, output, vocabulary, overwrite=True))
    assert "precious" not in read_content(output)
    verify(DataManifest.load(output))
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="it is a file"):
        prepare(prepare_options(corpus, file, vocabulary))
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "corpus is empty"),
        (b"\n \n\t\n", "corpus is empty"),
        (b"\0\x07", "corpus is empty"),
    ],
)
@pytest.mark.parametrize("given", [True, False])
def test_empty_corpus(
    tmp_path: Path, vocabulary: Path, content: bytes, message: str, given: bool
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(content)
    with pytest.raises(UsageError, match="corpus is empty|no word"):
        prepare(
            prepare_options(corpus, tmp_path / "data", vocabulary if given else None)
        )
    assert not (tmp_path / "data").exists()
    assert not list(tmp_path.glob(".*partial"))


def test_odd_text_is_counted(tmp_path: Path, vocabulary: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(b"w1 \xff\xfe w2\0\n\n\x07\n\nw3 zzz\x01\n")
    result = prepare(
        prepare_options(corpus, tmp_path / "data", vocabulary, held_out=0.0)
    )
    assert result["undecodable_bytes"] == 2
    assert result["nul_characters"] == 1
    assert result["control_characters"] == 2
    assert result["documents"] == 3
    assert result["documents_without_tokens"] == 1
    assert result["tokens"] == 4
    assert result["unknown_fraction"] == 0.25


def test_report(tmp_path: Path, vocabulary: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    texts = ["w1 w2 w3", "w1  w2\nw3", "W4 na\u00efve zzz zzz", "zzz " * 9, "w5"]
    corpus.write_text("\n\n".join(texts))
    result = prepare(
        prepare_options(corpus, tmp_path / "data", vocabulary, held_out=0.0)
    )
    report = json.loads((tmp_path / "data" / "report.json").read_text())
    assert report["documents"] == 5
    assert report["duplicate_documents"] == result["duplicate_documents"] == 1
    assert report["tokens"] == 3 + 3 + 4 + 9 + 1
    assert report["unknown_fraction"] == 12 / 20
    assert report["most_frequent_unknown"] == [
        {"word": "zzz", "count": 11},
        {"word": "na\u00efve", "count": 1},
    ]
    assert report["document_lengths"] == [
        {"tokens_up_to": 1, "documents": 1},
        {"tokens_up_to": 2, "documents": 0},
        {"tokens_up_to": 4, "documents": 3},
        {"tokens_up_to": 8, "documents": 0},
        {"tokens_up_to": 16, "documents": 1},
    ]
    picture = (tmp_path / "data" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_damaged_data_is_named(tmp_path: Path, vocabulary: Path) -> None:
    output = tmp_path / "data"
    prepare(prepare_options(small_corpus(tmp_path), output, vocabulary))
    manifest = DataManifest.load(output)
    shard = output / manifest.split("train")[0].file
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CommandError, match=shard.name):
        verify(manifest)
    shard.write_bytes(content[:-5])
    with pytest.raises(
        UsageError, match=f"{shard.name}: expected {len(content)} bytes"
    ):
        DataManifest.load(output)
    shard.unlink()
    with pytest.raises(UsageError, match=f"{shard.name}.*no file"):
        DataManifest.load(output)
    (output / "index.json").write_text("{}")
    with pytest.raises(UsageError, match="not a sound index"):
        DataManifest.load(output)
    with pytest.raises(UsageError, match="no such folder"):
        DataManifest.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"held_out": 1.0}, "--held-out"),
        ({"workers": 0}, "--workers"),
        ({"seed": -1}, "--seed"),
        ({"vocabulary": Path("none.txt")}, "--vocabulary none.txt: No such file"),
    ],
)
def test_options_are_checked(
    tmp_path: Path, vocabulary: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        prepare(
            prepare_options(
                small_corpus(tmp_path), tmp_path / "data", vocabulary, **changes
            )
        )


def test_manifest_gives_the_tokenizer(tmp_path: Path, vocabulary: Path) -> None:
    prepare(
        prepare_options(
            small_corpus(tmp_path), tmp_path / "data", vocabulary, lowercase=False
        )
    )
    tokenizer = DataManifest.load(tmp_path / "data").tokenizer()
    assert tokenizer(["w1 W1"]) == [[6, 1]]
