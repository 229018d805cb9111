"""Held-out text that the supernet was trained on is found, however it was cut."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandError, UsageError
from tests.training.conftest import sentences
from training.scoring.held_out_overlap import (
    check_held_out,
    count_shared,
    window_hashes,
)

WINDOW = 12


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
    shared, compared = count_shared(
        DataManifest.load(other), DataManifest.load(data), WINDOW
    )
    assert shared == 0
    assert compared > 20


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
    shared, compared = count_shared(
        DataManifest.load(other), DataManifest.load(data), WINDOW
    )
    # 0.7 of 0.9 of the documents were trained on; a window of half an example is cut
    # in two as often as not
    assert 0.2 * compared < shared < 0.85 * compared


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
