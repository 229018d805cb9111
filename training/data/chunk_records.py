"""Turns one chunk of documents into serialised examples; runs in worker processes.

TensorFlow is imported when a worker is made, not when this module is.
"""

import hashlib
import json
import multiprocessing
import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lvbert_tf.vocabulary import Duplicates
from training.data.corpus import Chunk
from training.data.corpus_report import ChunkObservations
from training.data.examples import ExampleOptions, lossless_spans, official_spans
from training.data.record_format import encode_examples, lay_out, mix_keys
from training.data.text_anomalies import clean_documents

SPLITS = ("train", "held_out")
_WHITE_SPACE = b" \t\n\r\x0b\x0c"
_HASHES = float(1 << 64)


@dataclass(frozen=True)
class TokenizerSettings:
    """What `LVBertTokenizer` needs: picklable, and stored in the index.

    Attributes:
        vocabulary: the tokens.
        lowercase: see `LVBertTokenizer`.
        strip_accents: see `LVBertTokenizer`.
        duplicates: see `LVBertTokenizer`.
    """

    vocabulary: tuple[str, ...]
    lowercase: bool
    strip_accents: bool | None
    duplicates: Duplicates


@dataclass(frozen=True)
class ChunkSettings:
    """What a worker must know.

    Attributes:
        directory: folder for the pieces.
        tokenizer: how text becomes ids.
        examples: the rules of example building.
        held_out: share of the documents that is held out.
        seed: of the draws and of the order of the examples.
        official: build examples as the official code does.
    """

    directory: Path
    tokenizer: TokenizerSettings
    examples: ExampleOptions
    held_out: float
    seed: int
    official: bool


class ChunkWorker:
    """Makes pieces: the examples of one chunk, sorted by their random keys.

    A piece is three files: a table of keys and offsets with the counts (``.npz``,
    written last: it says that the piece is whole) and the records of each split.

    Args:
        settings: see `ChunkSettings`.
    """

    def __init__(self, settings: ChunkSettings) -> None:
        import tensorflow as tf

        from lvbert_tf.models.tokenizer import LVBertTokenizer

        self._settings = settings
        self._tokenizer = LVBertTokenizer(
            list(settings.tokenizer.vocabulary),
            lowercase=settings.tokenizer.lowercase,
            strip_accents=settings.tokenizer.strip_accents,
            duplicates=settings.tokenizer.duplicates,
        )
        self._special = self._tokenizer.special

        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )
        def tokenize(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            ids = self._tokenizer.tokenize_strings(lines, valid_utf8=True)
            return ids.flat_values, ids.row_splits

        self._tokenize = tokenize

    def run(self, chunk: Chunk) -> dict[str, int]:
        """Writes the piece of a chunk, unless it is there, and returns its counts."""
        table = piece_table(self._settings.directory, chunk.index)
        if not table.exists():
            self._write(table, chunk)
        return read_counts(table)

    def _write(self, table: Path, chunk: Chunk) -> None:
        size = sum(map(len, chunk.documents))
        documents, counts = clean_documents(chunk.documents)
        hashes = np.array([document_hash(one) for one in documents], np.uint64)
        held_out = hashes / _HASHES < self._settings.held_out
        arrays: dict[str, npt.NDArray[Any]] = {"document_hashes": hashes}
        observed = ChunkObservations()
        totals = {
            "documents": len(documents),
            "held_out_documents": int(held_out.sum()),
            "bytes": size,
            **counts,
        }
        for stream, split in enumerate(SPLITS):
            chosen = [
                document
                for document, held in zip(documents, held_out, strict=True)
                if held == (split == "held_out")
            ]
            records, counts = self._records(chosen, 2 * chunk.index + stream, observed)
            keys = mix_keys(self._settings.seed, 2 * chunk.index + stream, len(records))
            order = np.argsort(keys, kind="stable")
            records = [records[index] for index in order]
            write_file(piece_records(table, split), b"".join(records))
            arrays[f"{split}_keys"] = keys[order]
            arrays[f"{split}_ends"] = np.cumsum(
                [len(record) for record in records], dtype=np.int64
            )
            name = "examples" if split == "train" else "held_out_examples"
            totals[name] = len(records)
            for key, value in counts.items():
                totals[key] = totals.get(key, 0) + value
        arrays["counts"] = np.array(json.dumps(totals))
        arrays["observations"] = np.array(observed.to_json())
        temporary = table.with_suffix(".tmp.npz")
        np.savez(temporary, allow_pickle=False, **arrays)
        temporary.replace(table)

    def _records(
        self, documents: Sequence[bytes], stream: int, observed: ChunkObservations
    ) -> tuple[list[bytes], dict[str, int]]:
        import tensorflow as tf

        lines: list[bytes] = []
        line_counts = []
        for document in documents:
            before = len(lines)
            lines += document.split(b"\n")
            line_counts.append(len(lines) - before)
        tokens, splits = (
            result.numpy() for result in self._tokenize(tf.constant(lines, tf.string))
        )
        unknown = np.flatnonzero(tokens == self._special.unk)
        observed.add_documents(splits, line_counts)
        observed.add_unknown(
            [
                lines[one]
                for one in np.unique(np.searchsorted(splits, unknown, "right")) - 1
            ],
            self._has_unknown,
        )
        counts = {
            "tokens": len(tokens),
            "unknown_tokens": len(unknown),
            "lost_tokens": 0,
            "documents_without_tokens": 0,
        }
        if self._settings.official:
            tokens, spans = self._official(tokens, splits, line_counts, stream)
            counts["lost_tokens"] = counts["tokens"] - len(tokens)
        else:
            spans = self._lossless(splits.tolist(), line_counts, stream, counts)
        layout = lay_out(tokens, spans, self._special.cls, self._special.sep)
        return encode_examples(layout), counts

    def _has_unknown(self, words: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Returns for each word whether it has a piece [UNK]."""
        import tensorflow as tf

        tokens, splits = (
            result.numpy() for result in self._tokenize(tf.constant(words, tf.string))
        )
        seen = np.concatenate([[0], np.cumsum(tokens == self._special.unk)])
        result: npt.NDArray[np.bool_] = seen[splits[1:]] > seen[splits[:-1]]
        return result

    def _lossless(
        self,
        splits: Sequence[int],
        line_counts: Sequence[int],
        stream: int,
        counts: dict[str, int],
    ) -> npt.NDArray[np.int64]:
        options = self._settings.examples
        rng = random.Random(f"{self._settings.seed}/{stream}")
        spans: list[tuple[int, int, int]] = []
        if options.join_documents:
            line_counts = [sum(line_counts)]
        line = 0
        for count in line_counts:
            ends = splits[line + 1 : line + count + 1]
            before = len(spans)
            spans += lossless_spans(ends, splits[line], options, rng)
            counts["documents_without_tokens"] += len(spans) == before
            line += count
        return np.array(spans, np.int64).reshape(-1, 3)

    def _official(
        self,
        tokens: npt.NDArray[np.int32],
        splits: npt.NDArray[np.int64],
        line_counts: Sequence[int],
        stream: int,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        # The first stream has the official code's own seed: random.seed(seed).
        rng = random.Random(self._settings.seed + stream)
        sentences = [part.tolist() for part in np.split(tokens, splits[1:-1])]
        documents, line = [], 0
        for count in line_counts:
            documents.append([s for s in sentences[line : line + count] if s])
            line += count
        chosen: list[int] = []
        spans = []
        for first, second in official_spans(documents, self._settings.examples, rng):
            start = len(chosen)
            chosen += first
            middle = len(chosen)
            chosen += second
            spans.append((start, middle, len(chosen)))
        return np.array(chosen, np.int32), np.array(spans, np.int64).reshape(-1, 3)


def document_hash(document: bytes) -> int:
    """Returns a 64-bit hash that depends on the text alone, not on its spacing."""
    text = document.translate(None, _WHITE_SPACE)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def document_rank(document: bytes) -> float:
    """Returns `document_hash` as a number in [0, 1)."""
    return document_hash(document) / _HASHES


def piece_table(directory: Path, index: int) -> Path:
    """Returns the path of a piece's table of keys, offsets and counts."""
    return directory / f"piece-{index:06d}.npz"


def piece_records(table: Path, split: str) -> Path:
    """Returns the path of the records of one split of a piece."""
    return table.with_suffix(f".{split}")


def read_counts(table: Path) -> dict[str, int]:
    """Returns the counts of a piece."""
    with np.load(table) as arrays:
        counts: dict[str, int] = json.loads(str(arrays["counts"]))
    return counts


def write_file(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, then renames it."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


_worker: ChunkWorker | None = None


def start_worker(settings: ChunkSettings) -> None:
    """Prepares a worker process; several share a machine, so each has one thread."""
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _worker = ChunkWorker(settings)


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone.

    A killed parent can't tell its workers; they would wait for work for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_chunk(chunk: Chunk) -> dict[str, int]:
    """Handles one chunk in a process that `start_worker` prepared."""
    if _worker is None:
        raise RuntimeError("start_worker was not called in this process")
    return _worker.run(chunk)
