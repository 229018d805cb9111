"""A tiny data directory, made by the real `prepare`, for all tests of the stages."""

from pathlib import Path

import numpy as np
import pytest

WORDS = [
    f"{start}{middle}{end}"
    for start in ("ba", "co", "du", "fe", "gi")
    for middle in ("la", "mo", "ru")
    for end in ("n", "s", "t", "k")
]

TINY_MODEL = [
    "model.embedding_dim=8",
    "model.hidden_dim=16",
    "model.intermediate_dim=32",
    "model.num_heads=2",
    "model.max_sequence_length=32",
    "data.sequence_length=16",
    "data.validation_examples=16",
    "optimizer.learning_rate=0.01",
    "optimizer.warmup_steps=2",
    "run.steps=8",
    "run.batch_size=4",
    "run.log_every=1",
    "run.evaluate_every=4",
    "run.checkpoint_every=3",
]
"""Overrides that make an encoder of a few layers that trains in a second."""


def sentences(count: int, seed: int) -> list[str]:
    """Returns sentences whose words follow one another by a rule, with some noise."""
    draw = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        word, line = int(draw.integers(len(WORDS))), []
        for _ in range(int(draw.integers(8, 20))):
            line.append(WORDS[word])
            step = 7 if draw.random() < 0.9 else int(draw.integers(len(WORDS)))
            word = (word + step) % len(WORDS)
        lines.append(" ".join(line) + " .")
    return lines


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory: 16 tokens an example, some hundred examples, V about 100."""
    from training.data.examples import ExampleOptions
    from training.data.preparation import PrepareOptions, prepare
    from training.data.vocabulary_training import VocabularyOptions

    folder = tmp_path_factory.mktemp("tiny_data")
    corpus = folder / "corpus.txt"
    lines = sentences(600, seed=1)
    documents = ["\n".join(lines[i : i + 6]) for i in range(0, len(lines), 6)]
    corpus.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    prepare(
        PrepareOptions(
            inputs=[str(corpus)],
            output=folder / "records",
            training_vocabulary=VocabularyOptions(size=120),
            examples=ExampleOptions(sequence_length=16),
            held_out=0.1,
            workers=1,
        )
    )
    return folder / "records"
