"""Graph, `tokenizers` and reference give the same ids for any text."""

import lzma
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import (
    SPECIAL_TOKENS,
    token_ids,
)
from tests.lvbert_tf import official_tokenizer
from tests.lvbert_tf.mini_vocabulary import mini_tokenizer
from tests.paths import require_shared

# The engines carry different Unicode versions. Characters that were assigned in 3.2
# mean the same in all of them, save those whose category or case changed later; the
# exhaustive test below lists those.
OLD_UNICODE = unicodedata.ucd_3_2_0


def _stable(character: str) -> bool:
    category = OLD_UNICODE.category(character)
    return category not in ("Cn", "Co", "Cs") and category == unicodedata.category(
        character
    )


STABLE = [chr(code) for code in range(0x110000) if _stable(chr(code))]


def _agree(tokenizer: LVBertTokenizer, texts: list[str]) -> list[str]:
    """Returns the texts on which graph, library and reference don't agree."""
    vocabulary = token_ids(tokenizer.get_vocabulary())
    strip = tokenizer.normalization.strip_accents
    library = tokenizer.to_tokenizers()
    return [
        text
        for text, graph in zip(texts, tokenizer(texts), strict=True)
        if not (
            graph
            == library.encode(text, add_special_tokens=False).ids
            == official_tokenizer.ids(text, vocabulary, tokenizer.lowercase, strip)
        )
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(
            st.sampled_from(STABLE)
            | st.characters(max_codepoint=0x2FF, exclude_categories=("Cn", "Co", "Cs"))
        ),
        min_size=1,
        max_size=8,
    )
)
@example(["\u03a3\u039f\u03a6\u039f\u03a3 \u03a3 a\u03a3.\u03a3 \u03a3\u03a3"])
@example(["a" * 200, "a" * 201, "\u00e9" * 201, "a\u00e9" * 101, "e\u0301" * 150])
@example(["a" * 150 + "\u2014" + "b" * 150, "\u4e2d" * 300, "x\u3000" * 300])
@example([f"{'e' * 100}\u0301{'f' * 100}", "\u1e9e\u0130\u0149"])
def test_engines_agree_on_any_text(texts: list[str]) -> None:
    for lowercase in (True, False):
        tokenizer = mini_tokenizer(lowercase)
        assert _agree(tokenizer, texts) == []


@pytest.mark.parametrize("lowercase", [True, False])
def test_engines_agree_on_every_character(lowercase: bool) -> None:
    """Each stable character alone, inside a word and doubled.

    The vocabulary has every single character, so that dropping, splitting and case
    show in the ids.
    """
    pieces = dict.fromkeys(
        piece
        for character in STABLE
        for shape in {character, character.lower()}
        for base in {shape, unicodedata.normalize("NFD", shape)}
        for one in base
        if not unicodedata.category(one).startswith(("C", "Z"))
        for piece in (one, f"##{one}")
    )
    tokenizer = LVBertTokenizer(
        [*SPECIAL_TOKENS, *pieces], lowercase=lowercase, duplicates="last"
    )
    texts = [f"{one} a{one}b {one}{one}" for one in STABLE]
    groups = [" ".join(texts[start : start + 64]) for start in range(0, len(texts), 64)]
    assert _agree(tokenizer, groups) == []


CORPORA = ("books_00", "us_speeches", "wiki_paragraphs", "wikitext2.valid")


def _lines(name: str) -> list[str]:
    found = [p for p in require_shared("data/corpus").glob(f"{name}*.xz")]
    assert len(found) == 1
    return lzma.decompress(found[0].read_bytes()).decode("utf-8").splitlines()


def _disagreeing(lines: list[str], lowercase: bool) -> list[str]:
    vocabulary = require_shared("data/vocab.bert-uncased.txt")
    tokenizer = LVBertTokenizer(str(vocabulary), lowercase=lowercase)
    library = tokenizer.to_tokenizers()
    eager = library.encode_batch_fast(lines, add_special_tokens=False)
    graph = tf.function(tokenizer.tokenize_strings, autograph=False)(
        tf.constant(lines)
    ).to_list()
    return [
        line
        for line, ids, encoding in zip(lines, graph, eager, strict=True)
        if ids != encoding.ids
    ]


@pytest.mark.parametrize("lowercase", [True, False])
def test_engines_agree_on_real_text(lowercase: bool) -> None:
    for name in CORPORA:
        lines = _lines(name)
        assert _disagreeing(lines[:: max(1, len(lines) // 400)], lowercase) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CORPORA, "wikitext2.test", "books_07"])
def test_engines_agree_on_every_line_of_a_corpus(name: str) -> None:
    lines = _lines(name)
    assert len(lines) > 1000
    assert _disagreeing(lines, lowercase=True) == []
    assert _disagreeing(lines, lowercase=False) == []
