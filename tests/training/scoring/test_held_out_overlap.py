"""Held-out text that the supernet was trained on is found, however it was cut."""

import math
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.command_line import CommandError, UsageError
from tests.training.conftest import sentences
from training.data.examples import ExampleOptions, lossless_spans
from training.data.split_rank import split_rank
from training.scoring import held_out_overlap
from training.scoring.held_out_overlap import (
    check_held_out,
    count_shared,
    window_hashes,
)


def prepare_data(
    folder: Path, documents: list[str], held_out: float, **options: Any
) -> Path:
    from training.data.examples import ExampleOptions
    from training.data.preparation import PrepareOptions, prepare
    from training.data.vocabulary_training import VocabularyOptions

    folder.mkdir()
    corpus = folder / "corpus.txt"
    corpus.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    prepare(
        PrepareOptions(
            inputs=[str(corpus)],
            output=folder / "records",
            training_vocabulary=VocabularyOptions(size=120),
            examples=ExampleOptions(sequence_length=24),
            held_out=held_out,
            workers=1,
            **options,
        )
    )
    return folder / "records"


def documents(count: int, seed: int) -> list[str]:
    """Documents of words drawn evenly: hardly eight in a row occur twice."""
    lines = sentences(6 * count, seed)
    draw = np.random.default_rng(seed)
    words = sorted({word for line in lines for word in line.split()} - {"."})
    return [
        "\n".join(" ".join(draw.choice(words, size=14)) + " ." for _ in range(6))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def trained_on(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    from training.loop.batches import data_identity
    from training.run.options import Data

    path = tmp_path_factory.mktemp("base") / "data"
    data = prepare_data(path, documents(60, seed=1), 0.2)
    return data, data_identity(Data(directory=str(data), sequence_length=24))


def test_the_same_directory_passes(trained_on: tuple[Path, dict[str, str]]) -> None:
    data, identity = trained_on
    check_held_out(str(data), "/nowhere", identity)


def test_other_text_passes(
    tmp_path: Path, trained_on: tuple[Path, dict[str, str]]
) -> None:
    from training.data.manifest import DataManifest

    data, identity = trained_on
    vocabulary = data / "vocab.txt"
    other = prepare_data(
        tmp_path / "other", documents(40, seed=2), 0.3, vocabulary=vocabulary
    )
    check_held_out(str(other), str(data), identity)
    shared, compared, held = count_shared(
        DataManifest.load(other), DataManifest.load(data)
    )
    assert shared == 0
    assert compared == held > 5


def test_training_text_is_refused_however_it_is_cut(
    tmp_path: Path, trained_on: tuple[Path, dict[str, str]]
) -> None:
    from training.data.manifest import DataManifest

    data, identity = trained_on
    # The same documents, but other ones held out, and cut into examples otherwise
    other = prepare_data(
        tmp_path / "other",
        documents(60, seed=1),
        0.9,
        vocabulary=data / "vocab.txt",
        seed=99,
    )
    with pytest.raises(UsageError, match="overlaps with the supernet's training data"):
        check_held_out(str(other), str(data), identity)
    shared, compared, held = count_shared(
        DataManifest.load(other), DataManifest.load(data)
    )
    ranks = [split_rank("held_out", one.encode()) for one in documents(60, seed=1)]
    assert held == compared == sum(rank < 0.9 for rank in ranks)
    assert shared == sum(0.2 <= rank < 0.9 for rank in ranks)


def test_without_the_training_data_nothing_is_promised(
    tmp_path: Path, trained_on: tuple[Path, dict[str, str]]
) -> None:
    data, identity = trained_on
    other = dict(identity, train_sha256="0" * 64)
    with pytest.raises(UsageError, match="no longer at /nowhere"):
        check_held_out(str(data), "/nowhere", other)
    with pytest.raises(UsageError, match="now is another data set"):
        check_held_out(str(data), str(data), other)


def test_damaged_training_data_is_named(
    tmp_path: Path, trained_on: tuple[Path, dict[str, str]]
) -> None:
    from training.data.manifest import DataManifest

    data, identity = trained_on
    other = prepare_data(
        tmp_path / "other", documents(20, seed=3), 0.5, vocabulary=data / "vocab.txt"
    )
    copy = Path(shutil.copytree(data, tmp_path / "copy"))
    shard = copy / DataManifest.load(copy).split("train")[0].file
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CommandError, match=f"{shard.name} \\(expected sha256"):
        check_held_out(str(other), str(copy), identity)


def test_window_hashes() -> None:
    tokens = np.array([5, 6, 7, 8, 5, 6, 7, 9])
    hashes = window_hashes(tokens, 3)
    assert hashes.shape == (6,)
    assert hashes[0] == hashes[4]
    assert len(set(hashes.tolist())) == 5
    assert window_hashes(tokens[:2], 3).shape == (0,)
    # zeros count too, and order matters
    assert len(set(window_hashes(np.array([0, 0, 0, 1, 0, 0]), 2).tolist())) == 3


Texts = list[list[int]]


def _cut(texts: Texts, length: int, seed: int) -> Any:
    """Examples as `prepare` cuts them, shuffled: tokens, lengths, documents."""
    rng = random.Random(seed)
    options = ExampleOptions(sequence_length=length)
    found = []
    for number, text in enumerate(texts):
        ends = sorted({*range(9, len(text), 9), len(text)})
        for start, _, end in lossless_spans(ends, 0, options, rng):
            found.append((text[start:end], number))
    rng.shuffle(found)
    tokens = np.array([one for text, _ in found for one in text], np.int64)
    lengths = np.array([len(text) for text, _ in found], np.int64)
    return tokens, lengths, np.array([number for _, number in found], np.int64)


def _count(
    held_out: Texts, training: Texts, lengths: tuple[int, int]
) -> tuple[int, int, int]:
    data = {
        "held_out": _cut(held_out, lengths[0], 1),
        "train": _cut(training, lengths[1], 2),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            held_out_overlap, "_examples", lambda _, split: iter([data[split]])
        )
        ours, theirs = (SimpleNamespace(sequence_length=one) for one in lengths)
        return count_shared(ours, theirs)  # type: ignore[arg-type]


def _natural(draw: np.random.Generator, count: int, mean: int) -> Texts:
    """Texts of tokens with Zipf's frequencies, of all lengths from 1 on."""
    chances = 1 / np.arange(5, 3005)
    return [
        draw.choice(3000, size=1 + int(size), p=chances / chances.sum()).tolist()
        for size in draw.exponential(mean, count)
    ]


LENGTHS = st.sampled_from([16, 32, 64, 128])


@settings(max_examples=20, deadline=None)
@given(LENGTHS, LENGTHS, st.integers(0, 999), st.sampled_from([12, 60, 400]))
def test_trained_documents_are_found_and_no_others(
    ours: int, theirs: int, seed: int, mean: int
) -> None:
    """Whatever the lengths: half of the held-out documents were trained on."""
    draw = np.random.default_rng(seed)
    held_out = [one for one in _natural(draw, 200, mean) if len(one) > 4]
    trained = held_out[::2]
    training = _natural(draw, 400, mean) + trained
    shared, _, documents = _count(held_out, training, (ours, theirs))
    assert documents == len(held_out)
    assert 0.95 * len(trained) <= shared <= len(trained) + 0.01 * documents
    shared, _, _ = _count(held_out[1::2], training, (ours, theirs))
    # One in a hundred; of 73 documents that is one, not none.
    assert shared <= math.ceil(0.01 * len(held_out[1::2]))


@settings(max_examples=10, deadline=None)
@given(LENGTHS, st.integers(0, 999))
def test_a_common_licence_is_no_overlap(length: int, seed: int) -> None:
    """Half of each text, on average, is the same licence."""
    draw = np.random.default_rng(seed)
    licence = draw.integers(3000, size=120).tolist()
    texts = [licence + one for one in _natural(draw, 900, 120)]
    shared, _, documents = _count(texts[:100], texts[100:], (length, length))
    assert shared <= 0.01 * documents


@pytest.mark.xfail(
    strict=True,
    reason="texts made of few sentences share runs of them by chance: of clean ones 33 "
    "to 43% are taken for trained ones at 16 tokens, 9 to 17% at 32, 2 to 7% at 128",
)
def test_texts_of_a_few_common_sentences_are_no_overlap() -> None:
    draw = np.random.default_rng(0)
    pool = _natural(draw, 150, 6)
    texts = [
        [token for one in draw.integers(150, size=12) for token in pool[one]]
        for _ in range(900)
    ]
    shared, _, documents = _count(texts[:100], texts[100:], (16, 16))
    assert shared <= 0.01 * documents
