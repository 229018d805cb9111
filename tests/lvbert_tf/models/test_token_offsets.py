"""Tokens and the characters they stand for."""

import json

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf import LVBertTokenizer
from tests.paths import golden, require_shared

LETTERS = [*"abcdefghijklmnopqrstuvwxyz", "é", "ß", "\u03c3", "中", "."]
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
]


def _check(tokenizer: LVBertTokenizer, texts: list[str]) -> None:
    tokens = tokenizer.tokenize_with_offsets(tf.constant(texts))
    expected = tokenizer.tokenize_strings(tf.constant(texts))
    assert tokens.ids.to_list() == expected.to_list()
    for text, starts, ends in zip(
        texts, tokens.starts.to_list(), tokens.ends.to_list(), strict=True
    ):
        assert all(0 <= a < b <= len(text) for a, b in zip(starts, ends, strict=True))
        # Tokens follow each other, save that one character may become several.
        assert starts == sorted(starts)
        assert ends == sorted(ends)


@pytest.mark.golden
@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_on_the_official_strings_are_those_of_tokenize(lowercase: bool) -> None:
    case = "lower" if lowercase else "cased"
    strings = [
        entry["text"]
        for entry in json.loads(
            golden(f"tokenizer/mini_vocab_{case}.json").read_text()
        )["cases"]
    ]
    vocabulary = golden("tokenizer/mini_vocab.txt")
    tokenizer = LVBertTokenizer(str(vocabulary), lowercase=lowercase, duplicates="last")
    _check(tokenizer, strings)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(
            st.sampled_from(
                [*"aBÉéßΣ中. \t", "\u03c3", "\u0301", "\u200b", "İ", "ﬁ", "각", "\x00"]
            ),
            max_size=12,
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_ids_of_made_up_texts(texts: list[str], lowercase: bool) -> None:
    _check(LVBertTokenizer(VOCABULARY, lowercase=lowercase), texts)


def test_tokens_read_as_they_stand_in_the_text() -> None:
    tokenizer = LVBertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ete"])
    texts = ["", "l'Été", "e\u0301te\u0301 x", "\u0301\u0301", "ÉTÉ"]
    tokens = tokenizer.tokenize_with_offsets(tf.constant(texts))
    read = [
        [text[a:b] for a, b in zip(starts, ends, strict=True)]
        for text, starts, ends in zip(
            texts, tokens.starts.to_list(), tokens.ends.to_list(), strict=True
        )
    ]
    assert read == [
        [],
        ["l", "'", "Été"],
        ["e\u0301te\u0301", "x"],
        [],
        ["ÉTÉ"],
    ]


def test_a_word_over_the_limit_is_one_unknown_token() -> None:
    tokenizer = LVBertTokenizer(VOCABULARY)
    long, most = "a" * 201, "a" * 200
    _check(tokenizer, [f"b {long} c", f"b {most} c", f"{long}.{long}"])
    tokens = tokenizer.tokenize_with_offsets(tf.constant([f"b {long} c"]))
    assert tokens.ids.to_list() == [[VOCABULARY.index("b"), 1, VOCABULARY.index("c")]]
    assert tokens.ends.to_list() == [[1, 203, 205]]


def test_strings_are_needed_as_ids() -> None:
    tokenizer = LVBertTokenizer(VOCABULARY, dtype="string")
    with pytest.raises(ValueError, match="Offsets come with ids"):
        tokenizer.tokenize_with_offsets(tf.constant(["a"]))


def test_real_text_reads_back() -> None:
    path = require_shared("data/vocab.bert-uncased.txt")
    tokenizer = LVBertTokenizer(str(path))
    text = "The mill at Ålder Creek (1801-1879), who\u2019d cost $4,200; naïve."
    tokens = tokenizer.tokenize_with_offsets(tf.constant([text]))
    read = [
        text[a:b]
        for a, b in zip(
            tokens.starts.to_list()[0], tokens.ends.to_list()[0], strict=True
        )
    ]
    assert "".join(read) == text.replace(" ", "")
