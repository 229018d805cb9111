"""A small corpus of known words, and what preparing it wrote."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from training.data.examples import ExampleOptions
from training.data.manifest import DataManifest
from training.data.preparation import PrepareOptions

WORDS = [f"w{number}" for number in range(400)]


def small_corpus(tmp_path: Path, documents: int = 60, name: str = "corpus.txt") -> Path:
    path = tmp_path / name
    texts = []
    for number in range(documents):
        lines = [
            " ".join(WORDS[(number * 7 + line * 3 + i) % 400] for i in range(5 + line))
            + " ."
            for line in range(1 + number % 9)
        ]
        texts.append("\n".join(lines))
    path.write_text("\n\n".join(texts) + "\n")
    return path


def prepare_options(
    corpus: Path, output: Path, words: Path | None, **changes: Any
) -> PrepareOptions:
    values: dict[str, Any] = {
        "inputs": [str(corpus)],
        "output": output,
        "vocabulary": words,
        "examples": ExampleOptions(32),
        "held_out": 0.2,
        "workers": 1,
    }
    return PrepareOptions(**(values | changes))


def read_records(directory: Path, split: str) -> list[tuple[list[int], list[int]]]:
    found = []
    for shard in DataManifest.load(directory).split(split):
        for raw in tf.data.TFRecordDataset(str(directory / shard.file)):
            feature = tf.train.Example.FromString(raw.numpy()).features.feature
            found.append(
                tuple(
                    list(feature[name].int64_list.value)
                    for name in ("token_ids", "segment_ids")
                )
            )
    return found  # type: ignore[return-value]


def read_content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
