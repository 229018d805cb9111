"""Vocabulary training: what comes out, and that it is always the same."""

import pytest

from common.command_line import UsageError
from lvbert_tf.models.text_normalization import TextNormalization
from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import SPECIAL_TOKENS
from training.data.vocabulary_training import (
    DocumentSample,
    VocabularyOptions,
    train_vocabulary,
)

LOWER = TextNormalization(lowercase=True, strip_accents=True)
TEXT = [
    b"The playing players played the plays.",
    "Na\u00efve players replay \u4e2d\u6587 plays".encode(),
] * 3


def test_vocabulary_covers_its_text() -> None:
    vocabulary = train_vocabulary(
        TEXT, VocabularyOptions(size=80, unused_tokens=2), LOWER
    )
    assert vocabulary[:7] == [*SPECIAL_TOKENS, "[unused0]", "[unused1]"]
    assert len(vocabulary) <= 80
    assert len(set(vocabulary)) == len(vocabulary)
    tokenizer = LVBertTokenizer(vocabulary)
    for document in TEXT:
        (ids,) = tokenizer([document.decode()])
        assert tokenizer.unk_token_id not in ids
    assert not any(token.lower() != token for token in vocabulary[7:])
    assert "players" in vocabulary


def test_cased_vocabulary() -> None:
    vocabulary = train_vocabulary(
        TEXT, VocabularyOptions(size=80), TextNormalization(False, False)
    )
    assert "T" in vocabulary
    assert "##\u00ef" in vocabulary


def test_size_and_frequency_are_limits() -> None:
    small = train_vocabulary(TEXT, VocabularyOptions(size=20), LOWER)
    assert len(small) <= 20
    rare = train_vocabulary(TEXT, VocabularyOptions(80, min_frequency=1000), LOWER)
    assert "players" not in rare


def test_equal_runs_give_equal_vocabularies() -> None:
    """Ties everywhere, which the library alone breaks in the order of hash maps."""
    documents = [
        " ".join(
            chr(97 + row * column % 26) * (column % 5 + 1) + chr(0x4E00 + row * 7 % 300)
            for column in range(40)
        ).encode()
        for row in range(400)
    ]
    options = VocabularyOptions(300)
    first = train_vocabulary(documents, options, LOWER)
    for _ in range(4):
        assert train_vocabulary(documents, options, LOWER) == first
    assert train_vocabulary(documents[::-1], options, LOWER) == first


def test_empty_text_is_refused() -> None:
    with pytest.raises(UsageError, match="no word"):
        train_vocabulary([b"\0\x07"], VocabularyOptions(size=50), LOWER)
    with pytest.raises(UsageError, match="--vocabulary-size must be at least 7"):
        VocabularyOptions(size=6)
    with pytest.raises(UsageError, match="--min-frequency"):
        VocabularyOptions(min_frequency=0)


def test_sample_depends_on_the_text_only() -> None:
    documents = [f"document {number}".encode() * 10 for number in range(1000)]
    sample = DocumentSample(20_000)
    for document in documents:
        sample.add(document)
    chosen = sample.documents()
    assert 5_000 < sum(map(len, chosen)) <= 20_000
    assert chosen == [document for document in documents if document in set(chosen)]
    other = DocumentSample(20_000)
    for document in reversed(documents):
        other.add(document)
    assert set(other.documents()) == set(chosen)
    everything = DocumentSample(10**9)
    for document in documents:
        everything.add(document)
    assert everything.documents() == documents
    one = DocumentSample(1)
    one.add(documents[0])
    assert one.documents() == documents[:1]
