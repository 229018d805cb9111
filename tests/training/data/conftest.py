"""The vocabulary of `preparations.small_corpus`."""

from pathlib import Path

import pytest

from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from tests.training.data.preparations import WORDS


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    write_vocabulary(path, [*SPECIAL_TOKENS, *WORDS, "."])
    return path
