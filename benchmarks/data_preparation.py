"""Data preparation: the stages on one core, end to end by workers, and reading back.

The text is made here, so that the figures need no file: words of Zipf frequencies in
paragraphs of the length of a book's. Real books (`LVBERT_SHARED`, where it is set) are
used instead where they are there.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lvbert_tf.models.text_normalization import TextNormalization
from lvbert_tf.vocabulary import write_vocabulary
from training.data.chunk_records import ChunkSettings, ChunkWorker, TokenizerSettings
from training.data.compression import decompressed, split_suffixes
from training.data.corpus import chunks, find_files
from training.data.examples import ExampleOptions
from training.data.preparation import PrepareOptions, prepare
from training.data.records import training_dataset
from training.data.vocabulary_training import VocabularyOptions, train_vocabulary

MEGABYTES = 24
SEQUENCE_LENGTH = 128
_ROUNDS = 3
_STEP_TOKENS_PER_SECOND = 1100
"""What a training step of LV-BERT-small of the official code takes on two cores."""


def run() -> dict[str, Any]:
    """Runs the benchmark and returns its figures, in MB of raw text a second."""
    folder = Path(tempfile.mkdtemp(prefix="data-preparation-"))
    try:
        corpus = folder / "corpus.txt"
        corpus.write_bytes(_text())
        vocabulary = _vocabulary(corpus)
        write_vocabulary(folder / "vocab.txt", vocabulary)
        return {
            "megabytes": corpus.stat().st_size / 1e6,
            "stages": _stages(folder, corpus, vocabulary),
            "end_to_end": [
                _end_to_end(folder, corpus, workers)
                for workers in sorted({1, 2, len(os.sched_getaffinity(0))})
            ],
            "reading": _reading(folder / "data-1"),
        }
    finally:
        shutil.rmtree(folder)


def _stages(
    folder: Path, corpus: Path, vocabulary: list[str]
) -> dict[str, dict[str, float]]:
    """Times reading, tokenizing, and chunk to records, in this process."""
    files = find_files([str(corpus)])
    pieces = folder / "pieces"
    pieces.mkdir()
    worker = ChunkWorker(
        ChunkSettings(
            directory=pieces,
            tokenizer=TokenizerSettings(tuple(vocabulary), True, None, "error"),
            examples=ExampleOptions(SEQUENCE_LENGTH),
            held_out=0.02,
            seed=0,
            official=False,
        )
    )
    text = list(chunks(files))
    megabytes = corpus.stat().st_size / 1e6

    def make_pieces() -> None:
        for old in pieces.iterdir():
            old.unlink()
        for chunk in text:
            worker.run(chunk)

    return {
        "read": _rate(megabytes, lambda: list(chunks(files))),
        "chunk_to_records": _rate(megabytes, make_pieces),
    }


def _end_to_end(folder: Path, corpus: Path, workers: int) -> dict[str, Any]:
    """Times the whole preparation, vocabulary given, start of workers included."""
    rates = []
    for _ in range(_ROUNDS):
        result = prepare(
            PrepareOptions(
                inputs=[str(corpus)],
                output=folder / f"data-{workers}",
                vocabulary=folder / "vocab.txt",
                examples=ExampleOptions(SEQUENCE_LENGTH),
                workers=workers,
                overwrite=True,
            )
        )
        rates.append(result["megabytes_per_second"])
    return {"workers": workers, **_summary(rates)}


def _reading(data: Path) -> dict[str, Any]:
    """Times masked batches of 32 for training."""
    steps = 300
    dataset = training_dataset(
        data, batch_size=32, sequence_length=SEQUENCE_LENGTH, seed=0
    )
    rates = []
    for _ in range(_ROUNDS):
        batches = iter(dataset)
        next(batches)
        start = time.perf_counter()
        for _ in range(steps):
            next(batches)
        rates.append(steps * 32 * SEQUENCE_LENGTH / (time.perf_counter() - start))
    summary = _summary(rates)
    return {
        "tokens_per_second": summary,
        "times_a_training_step": summary["median"] / _STEP_TOKENS_PER_SECOND,
    }


def _rate(amount: float, work: Callable[[], object]) -> dict[str, float]:
    work()
    rates = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        rates.append(amount / (time.perf_counter() - start))
    return _summary(rates)


def _summary(rates: list[float]) -> dict[str, float]:
    return {
        "median": float(np.median(rates)),
        "fastest": max(rates),
        "spread": max(rates) - min(rates),
    }


def _vocabulary(corpus: Path) -> list[str]:
    sample = [corpus.read_bytes()[: 4 << 20]]
    return train_vocabulary(
        sample, VocabularyOptions(8000), TextNormalization(True, True)
    )


def _text() -> bytes:
    """Returns the benchmark's text: a shared book corpus, or made-up prose."""
    shared = os.environ.get("LVBERT_SHARED")
    books = sorted(Path(shared, "data", "corpus").glob("books_*")) if shared else []
    if books:
        content = b""
        for book in books:
            with book.open("rb") as raw:
                content += decompressed(raw, split_suffixes(book.name)[1]).read()
            if len(content) >= MEGABYTES * 1_000_000:
                break
        return content[: MEGABYTES * 1_000_000]
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    frequency = 1 / np.arange(1, 27)
    frequency /= frequency.sum()
    words = np.array(
        [
            "".join(rng.choice(letters, rng.integers(1, 11), p=frequency))
            for _ in range(20_000)
        ]
    )
    paragraphs = []
    size = 0
    while size < MEGABYTES * 1_000_000:
        ranks = np.minimum(rng.zipf(1.2, rng.integers(20, 100)) - 1, len(words) - 1)
        paragraph = " ".join(words[ranks]).capitalize() + "."
        if rng.random() < 0.05:
            paragraph += "\n"
        paragraphs.append(paragraph)
        size += len(paragraph) + 1
    return "\n".join(paragraphs).encode()
