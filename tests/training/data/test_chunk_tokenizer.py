"""The short cut for most lines changes no id, and is taken."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import SPECIAL_TOKENS
from training.data.chunk_tokenizer import (
    ChunkTokenizer,
    TokenizerSettings,
    odd_lines,
)

VOCABULARY = (
    *SPECIAL_TOKENS,
    *"abcdefABCDEF.,'0“”—\u2010\u2027",
    *(f"##{letter}" for letter in "abcdefABCDEFé"),
    *("é", "e\u0301", "\u03c2", "\u03c3", "中", "bad", "Bad", "##ed"),
)
ODD = (
    "aB“”—\u200b\u2010\u2027é\u0301\u03a3\u03c2中 "
    "\x00\x07\x0b\x0c\x7f\x85\xa0\ufeff.\u2028"
)
MODES = [(True, None), (True, False), (False, None), (False, True)]


@cache
def _both(
    lowercase: bool, strip: bool | None
) -> tuple[ChunkTokenizer, LVBertTokenizer]:
    return (
        ChunkTokenizer(TokenizerSettings(VOCABULARY, lowercase, strip, "error")),
        LVBertTokenizer(list(VOCABULARY), lowercase=lowercase, strip_accents=strip),
    )


def _rows(tokenizer: ChunkTokenizer, lines: list[bytes]) -> list[list[int]]:
    ids, splits = tokenizer(lines)
    assert splits[0] == 0
    assert splits[-1] == len(ids)
    return [part.tolist() for part in np.split(ids, splits[1:-1])] if lines else []


@pytest.mark.parametrize(("lowercase", "strip"), MODES)
@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.text("abcdefABCDEF.,'0 \t\r", max_size=40),
            st.text(ODD, max_size=20),
            st.text("abAB“”—\u2010\u2027 ", max_size=20),
            st.integers(195, 206).map(lambda count: "ab " + "a" * count + " c"),
        ),
        max_size=8,
    )
)
def test_ids_are_those_of_the_tokenizer(
    lowercase: bool, strip: bool | None, lines: list[str]
) -> None:
    chunk_tokenizer, tokenizer = _both(lowercase, strip)
    encoded = [line.encode() for line in lines]
    expected = [tokenizer([line])[0] for line in lines]
    assert _rows(chunk_tokenizer, encoded) == [list(row) for row in expected]


def test_only_what_needs_it_takes_the_long_way() -> None:
    plain = b"plain ASCII, with\ttabs\r"
    lines = [plain, "é".encode(), plain, b"a" * 200, b"b" * 201, b"", b"c " * 300]
    assert odd_lines(lines, 200).tolist() == [1, 4]
    assert odd_lines([plain] * 3, 200).tolist() == []
    assert odd_lines([], 200).tolist() == []
    assert odd_lines([plain, b"a\x0bb", plain, b"\x7f"], 200).tolist() == [1, 3]


def test_typeset_punctuation_takes_the_short_way() -> None:
    typeset = [chr(code).encode() for code in range(0x2000, 0x2040)]
    plain = range(0x10, 0x28)
    expected = [index for index in range(0x40) if index not in plain]
    assert odd_lines(typeset, 200).tolist() == expected
    lines = ["“é”".encode(), "“e”—…".encode(), b"", "\u3010\u2018".encode()]
    assert odd_lines(lines, 200).tolist() == [0, 3]
