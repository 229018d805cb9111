"""DataManifest: what a data directory holds, read from its ``index.json``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.command_line import CommandError, UsageError
from lvbert_tf.vocabulary import read_vocabulary
from training.data.token_counts import TOKEN_COUNTS_FILE, read_token_counts

if TYPE_CHECKING:
    from lvbert_tf.models.tokenizer import LVBertTokenizer

INDEX_FILE = "index.json"
VOCABULARY_FILE = "vocab.txt"
FORMAT = 2
"""1 had no counts of tokens, and nested splits by one hash."""
SPLITS = ("train", "held_out")


@dataclass(frozen=True)
class Shard:
    """One TFRecord file.

    Attributes:
        file: its name within the data directory.
        split: ``"train"`` or ``"held_out"``.
        examples: number of records.
        bytes: size of the file.
        sha256: of the file's bytes.
    """

    file: str
    split: str
    examples: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class DataManifest:
    """A data directory that ``python -m training prepare`` wrote.

    Attributes:
        directory: where it is.
        options: how it was made (`sequence_length`, `lowercase`, …).
        counts: documents, tokens, examples and what was odd in the text.
        shards: its record files.
        vocabulary_size: number of ids.
        vocabulary_sha256: of the vocabulary file's bytes.
        token_counts_sha256: of the bytes of ``token_counts.npy``.
    """

    directory: Path
    options: dict[str, Any]
    counts: dict[str, int]
    shards: tuple[Shard, ...]
    vocabulary_size: int
    vocabulary_sha256: str
    token_counts_sha256: str

    @classmethod
    def load(cls, directory: str | Path) -> "DataManifest":
        """Reads the index of a data directory.

        Raises:
            UsageError: if the directory or its index is missing or not of this format.
        """
        directory = Path(directory)
        path = directory / INDEX_FILE
        if not path.is_file():
            what = "no such folder" if not directory.is_dir() else f"no {INDEX_FILE}"
            raise UsageError(
                f"{directory}: {what}. Expected a data directory made by "
                "`python -m training prepare`."
            )
        try:
            index = json.loads(path.read_text("utf-8"))
            if index["format"] != FORMAT:
                raise UsageError(
                    f"{path}: expected a data directory of format {FORMAT}. Received: "
                    f"format {index['format']}, made by another release: what it holds "
                    "out, and so every figure on it, would not compare with this "
                    "one's. Make it again with `python -m training prepare`."
                )
            manifest = cls(
                directory=directory,
                options=dict(index["options"]),
                counts=dict(index["counts"]),
                shards=tuple(Shard(**shard) for shard in index["shards"]),
                vocabulary_size=int(index["vocabulary"]["size"]),
                vocabulary_sha256=str(index["vocabulary"]["sha256"]),
                token_counts_sha256=str(index["token_counts"]["sha256"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{path}: not a sound index: {type(error).__name__}: {error}."
            ) from error
        for shard in manifest.shards:
            file = directory / shard.file
            if not file.is_file() or file.stat().st_size != shard.bytes:
                actual = f"{file.stat().st_size} bytes" if file.is_file() else "no file"
                raise UsageError(
                    f"{file}: expected {shard.bytes} bytes, as in {INDEX_FILE}. "
                    f"Found: {actual}. Prepare the data again."
                )
        for name in (VOCABULARY_FILE, TOKEN_COUNTS_FILE):
            if not (directory / name).is_file():
                raise UsageError(
                    f"{directory / name}: no such file. Prepare the data again."
                )
        return manifest

    @property
    def sequence_length(self) -> int:
        """Greatest number of tokens of an example, special tokens included."""
        return int(self.options["sequence_length"])

    @property
    def vocabulary_path(self) -> Path:
        """The vocabulary file."""
        return self.directory / VOCABULARY_FILE

    def split(self, name: str) -> tuple[Shard, ...]:
        """Returns the shards of ``"train"`` or ``"held_out"``."""
        return tuple(shard for shard in self.shards if shard.split == name)

    def num_examples(self, split: str) -> int:
        """Returns the number of examples of a split."""
        return sum(shard.examples for shard in self.split(split))

    def token_counts(self) -> NDArray[np.int64]:
        """Reads how often each id stands in the training split: int64 (V,).

        Raises:
            CommandError: if the file is missing or damaged.
        """
        path = self.directory / TOKEN_COUNTS_FILE
        try:
            return read_token_counts(
                path.read_bytes(), self.vocabulary_size, self.token_counts_sha256
            )
        except (OSError, ValueError) as error:
            raise CommandError(
                f"{path}: not the counts of this data: {error}. Prepare it again"
            ) from error

    def vocabulary(self) -> list[str]:
        """Reads the vocabulary."""
        return read_vocabulary(self.vocabulary_path, self.options["duplicates"])

    def tokenizer(self) -> "LVBertTokenizer":
        """Returns the tokenizer that made the data."""
        from lvbert_tf.models.tokenizer import LVBertTokenizer

        return LVBertTokenizer(
            self.vocabulary(),
            lowercase=self.options["lowercase"],
            strip_accents=self.options["strip_accents"],
            duplicates=self.options["duplicates"],
        )

    def expected_sha256(self, splits: Sequence[str] = SPLITS) -> dict[Path, str]:
        """Returns the checksums of splits, the vocabulary and the token counts."""
        expected = {
            self.directory / shard.file: shard.sha256
            for split in splits
            for shard in self.split(split)
        }
        return {
            self.vocabulary_path: self.vocabulary_sha256,
            self.directory / TOKEN_COUNTS_FILE: self.token_counts_sha256,
            **expected,
        }
