"""Splits within splits: sizes, and texts like those of the whole."""

import lzma

import numpy as np
import pytest
from scipy import stats

from tests.paths import require_shared
from training.data.split_rank import document_hash, split_hash, split_rank
from training.data.vocabulary_training import DocumentSample


def _texts() -> list[bytes]:
    """Paragraphs of real text, and, between them, as many short made-up ones."""
    content = lzma.decompress(
        require_shared("data/corpus/wiki_paragraphs.txt.xz").read_bytes()
    )
    paragraphs = [one for one in content.splitlines() if len(one) > 40]
    texts = list(dict.fromkeys(paragraphs))[:20_000]
    return texts + [b"a short text, number %d" % number for number in range(10_000)]


def test_nested_splits_have_their_sizes_and_are_like_the_whole() -> None:
    """Three splits, one in the rest of the other, and a choice from what is left."""
    texts = _texts()
    assert len(texts) > 12_000
    rest = texts
    for purpose, share in (("labelled", 0.1), ("held_out", 0.02)):
        taken = [one for one in rest if split_rank(purpose, one) < share]  # type: ignore[arg-type]
        left = [one for one in rest if split_rank(purpose, one) >= share]  # type: ignore[arg-type]
        bound = stats.binom.interval(1 - 1e-6, len(rest), share)
        assert bound[0] <= len(taken) <= bound[1], purpose
        for part in (taken, left):
            assert _same_lengths(part, texts), purpose
        rest = left
    chosen = sorted(rest, key=lambda one: split_rank("labelled_order", one))[:1000]
    assert _same_lengths(chosen, texts)
    # The sample of a vocabulary is no smaller in what is left, and is like it.
    sample = DocumentSample(sum(map(len, rest)) // 10)
    for one in rest:
        sample.add(one)
    assert _same_lengths(sample.documents(), texts)


def _same_lengths(part: list[bytes], whole: list[bytes]) -> bool:
    test = stats.ks_2samp([len(one) for one in part], [len(one) for one in whole])
    return bool(test.pvalue > 1e-5)


def test_one_hash_for_all_would_fail_that_test() -> None:
    texts = _texts()
    rest = [one for one in texts[:-10_000] if split_rank("labelled", one) >= 0.1]
    taken = [one for one in rest + texts[-10_000:] if split_rank("labelled", one) < 0.1]
    assert not _same_lengths(taken, texts)


@pytest.mark.parametrize("other", ["labelled", "labelled_order", "vocabulary"])
def test_ranks_of_two_purposes_are_independent_and_even(other: str) -> None:
    texts = [b"text %d" % number for number in range(5000)]
    first = np.array([split_rank("held_out", one) for one in texts])
    second = np.array([split_rank(other, one) for one in texts])  # type: ignore[arg-type]
    assert stats.spearmanr(first, second).pvalue > 1e-5
    for ranks in (first, second):
        assert stats.kstest(ranks, "uniform").pvalue > 1e-5
        assert ((ranks >= 0.0) & (ranks < 1.0)).all()


def test_white_space_does_not_count() -> None:
    assert split_hash("held_out", b"a b\n c") == split_hash("held_out", b"ab c\t")
    assert document_hash(b"a b") == document_hash(b" ab\r\n")
    assert document_hash(b"ab") != split_hash("held_out", b"ab")
