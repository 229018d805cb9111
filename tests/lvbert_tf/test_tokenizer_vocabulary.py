"""Vocabularies that the tokenizer takes, and those that it refuses."""

import json
from pathlib import Path

import pytest

from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import (
    SPECIAL_TOKENS,
    read_vocabulary,
    vocabulary_sha256,
)
from tests.lvbert_tf.mini_vocabulary import GOLDEN, MINI


def test_vocabulary_sha256_is_that_of_the_file() -> None:
    header = json.loads((GOLDEN / "mini_vocab_lower.json").read_text("utf-8"))
    tokenizer = LVBertTokenizer(MINI, duplicates="last")
    assert tokenizer.vocabulary_sha256 == header["vocab_sha256"]
    assert tokenizer.vocabulary_size() == header["vocab_lines"]
    assert vocabulary_sha256(read_vocabulary(MINI, "last")) == header["vocab_sha256"]


def test_entries_that_text_cannot_produce_do_not_matter() -> None:
    """Control characters in an entry crash the stock builder."""
    vocabulary = [*SPECIAL_TOKENS, "a\x07b", "\ue000", "\ufffdx", "ab"]
    tokenizer = LVBertTokenizer(vocabulary)
    assert tokenizer(["a\x07b \ue000 " + "y" * 201]) == [[8, 1]]
    assert tokenizer.id_to_token(5) == "a\x07b"


def test_separators_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    tokens = [*SPECIAL_TOKENS, "\u2028", "ab"]
    path.write_bytes("\ufeff".encode() + "\n".join(tokens).encode() + b"\n")
    tokenizer = LVBertTokenizer(path)
    assert tokenizer.get_vocabulary() == tokens
    assert tokenizer(["ab\u2028ab"]) == [[6, 6]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a", "b", "a"], "vocab.txt:8: the entry 'a' repeats line 6"),
        (["a", "", "b"], "vocab.txt:7: the entry is blank"),
        (["a\r"], "vocab.txt:6: the line ends with a carriage return"),
        ([" a"], "vocab.txt:6: the entry has white space around"),
    ],
)
def test_damaged_vocabulary_is_refused(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(f"{one}\n" for one in [*SPECIAL_TOKENS, *lines]).encode())
    with pytest.raises(ValueError, match=message):
        LVBertTokenizer(path)


@pytest.mark.parametrize("missing", SPECIAL_TOKENS)
def test_missing_special_token_is_named(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{one}\n" for one in SPECIAL_TOKENS if one != missing))
    with pytest.raises(ValueError, match="is missing") as raised:
        LVBertTokenizer(path)
    assert missing in str(raised.value)
    assert str(path) in str(raised.value)


def test_undecodable_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join(SPECIAL_TOKENS).encode() + b"\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"vocab\.txt:6: expected UTF-8"):
        LVBertTokenizer(path)
