"""Turns one chunk of documents into a piece of serialised examples."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from training.data.chunk_tokenizer import ChunkTokenizer, TokenizerSettings
from training.data.corpus import Chunk
from training.data.examples import ExampleOptions, lossless_spans, official_spans
from training.data.manifest import SPLITS
from training.data.observations import ChunkObservations
from training.data.pieces import Piece, sorted_split
from training.data.record_format import Layout, encode_examples, lay_out, mix_keys
from training.data.split_rank import document_hash, split_rank
from training.data.text_anomalies import clean_documents


@dataclass(frozen=True)
class ChunkSettings:
    """What the pieces depend on, besides the text.

    Attributes:
        tokenizer: how text becomes ids.
        examples: the rules of example building.
        held_out: share of the documents that is held out.
        seed: of the draws and of the order of the examples.
        official: build examples as the official code does.
    """

    tokenizer: TokenizerSettings
    examples: ExampleOptions
    held_out: float
    seed: int
    official: bool


class ChunkWorker:
    """Makes pieces; a piece depends on its chunk and the settings, on nothing else.

    Args:
        settings: see `ChunkSettings`.
    """

    def __init__(self, settings: ChunkSettings) -> None:
        self._settings = settings
        self._tokenize = ChunkTokenizer(settings.tokenizer)
        self._special = self._tokenize.special

    def piece(self, chunk: Chunk) -> Piece:
        """Returns the piece of a chunk."""
        size = sum(map(len, chunk.documents))
        documents, counts = clean_documents(chunk.documents)
        hashes = np.array([document_hash(one) for one in documents], np.uint64)
        ranks = np.array([split_rank("held_out", one) for one in documents])
        held_out = ranks < self._settings.held_out
        token_counts = np.zeros(len(self._settings.tokenizer.vocabulary), np.int64)
        observed = ChunkObservations()
        totals = {
            "documents": len(documents),
            "held_out_documents": int(held_out.sum()),
            "bytes": size,
            **counts,
        }
        splits = {}
        for split_index, split in enumerate(SPLITS):
            where = np.flatnonzero(held_out == (split == "held_out"))
            chosen = [documents[index] for index in where.tolist()]
            stream = 2 * chunk.stream + split_index
            layout, owners, counts = self._layout(chosen, stream, split, observed)
            if split == "train":
                token_counts += np.bincount(
                    layout.token_ids, minlength=len(token_counts)
                )
                records = encode_examples(layout)
            else:
                # What is scored must tell its documents apart; training need not.
                known = None if owners is None else hashes[where][owners]
                records = encode_examples(layout, known)
            keys = mix_keys(self._settings.seed, stream, len(records))
            splits[split] = sorted_split(records, keys)
            name = "examples" if split == "train" else "held_out_examples"
            totals[name] = len(records)
            for key, value in counts.items():
                totals[key] = totals.get(key, 0) + value
        return Piece(splits, hashes, totals, observed.to_json(), token_counts)

    def _layout(
        self,
        documents: Sequence[bytes],
        stream: int,
        split: str,
        observed: ChunkObservations,
    ) -> tuple[Layout, npt.NDArray[np.int64] | None, dict[str, int]]:
        """Returns examples, the document that each is of (if of one), and counts."""
        lines = b"\n".join(documents).split(b"\n") if documents else []
        line_counts = [document.count(b"\n") + 1 for document in documents]
        tokens, splits = self._tokenize(lines)
        unknown = np.flatnonzero(tokens == self._special.unk)
        observed.add_documents(splits, line_counts, held_out=split == "held_out")
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
            owners = None
        else:
            spans = self._lossless(splits.tolist(), line_counts, stream, counts)
            owners = None
            if not self._settings.examples.join_documents:
                ends = splits[np.cumsum(line_counts, dtype=np.int64)]
                owners = np.searchsorted(ends, spans[:, 0], "right")
        layout = lay_out(tokens, spans, self._special.cls, self._special.sep)
        return layout, owners, counts

    def _has_unknown(self, words: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Returns for each word whether it has a piece [UNK]."""
        tokens, splits = self._tokenize(words)
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
        return _as_array(spans)

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
        return np.array(chosen, np.int32), _as_array(spans)


def _as_array(spans: Sequence[tuple[int, int, int]]) -> npt.NDArray[np.int64]:
    # Ten times faster than np.array, which looks at every tuple's type.
    flat = itertools.chain.from_iterable(spans)
    return np.fromiter(flat, np.int64, 3 * len(spans)).reshape(-1, 3)
