"""What is noted of a corpus while it is read."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training.data.length_test import length_warning

_BINS_PER_OCTAVE = 4
_WORD = re.compile(r"\w+|[^\w\s]")
_LINES_LOOKED_AT = 5000
_WORDS_KEPT = 1000
_WORDS_IN_MEMORY = 100_000
_WORDS_REPORTED = 50
_HASHES_AT_ONCE = 1 << 25
_LENGTH_BINS = 32 * _BINS_PER_OCTAVE


class ChunkObservations:
    """What one chunk of the corpus adds to the report."""

    def __init__(self) -> None:
        self.lengths = np.zeros((2, _LENGTH_BINS), np.int64)
        self.unknown: Counter[str] = Counter()

    def add_documents(
        self,
        splits: npt.NDArray[np.int64],
        line_counts: Sequence[int],
        held_out: bool = False,
    ) -> None:
        """Adds the lengths of documents, in tokens, to four bins an octave.

        Args:
            splits: (lines + 1,) offsets of the lines' tokens.
            line_counts: number of lines of each document.
            held_out: whether they are held out.
        """
        ends = splits[np.cumsum([0, *line_counts])]
        octaves = np.log2(np.maximum(np.diff(ends), 1))
        bins = np.ceil(_BINS_PER_OCTAVE * octaves).astype(int)
        self.lengths[int(held_out)] += np.bincount(bins, minlength=_LENGTH_BINS)

    def add_unknown(
        self,
        lines: Sequence[bytes],
        has_unknown: Callable[[Sequence[bytes]], npt.NDArray[np.bool_]],
    ) -> None:
        """Counts the words of `lines` that the vocabulary doesn't know.

        Args:
            lines: lines with an unknown word; only the first few thousand are read.
            has_unknown: tells of each of several words whether it is unknown.
        """
        words = Counter(
            word
            for line in lines[:_LINES_LOOKED_AT]
            for word in _WORD.findall(line.decode("utf-8", "ignore"))
        )
        if not words:
            return
        candidates = list(words)
        flags = has_unknown([word.encode() for word in candidates])
        for word, flag in zip(candidates, flags, strict=True):
            if flag:
                self.unknown[word] += words[word]

    def to_json(self) -> str:
        """Returns the observations as text, for a piece's table."""
        return json.dumps(
            {
                "lengths": self.lengths.tolist(),
                "unknown": _top(self.unknown, _WORDS_KEPT),
            }
        )


class Observations:
    """What all chunks together add to the report."""

    def __init__(self) -> None:
        self._lengths = np.zeros((2, _LENGTH_BINS), np.int64)
        self._unknown: Counter[str] = Counter()

    def add(self, observed: str) -> None:
        """Adds what a chunk or `to_json` gave."""
        values = json.loads(observed)
        self._lengths += np.array(values["lengths"])
        for word, count in values["unknown"]:
            self._unknown[word] += count
        # A corpus has words without end; the rare ones are not reported.
        if len(self._unknown) > 2 * _WORDS_IN_MEMORY:
            self._unknown = Counter(dict(_top(self._unknown, _WORDS_IN_MEMORY)))

    def to_json(self) -> str:
        """Returns all of it in the form that `add` takes."""
        return json.dumps(
            {
                "lengths": self._lengths.tolist(),
                "unknown": _top(self._unknown, _WORDS_IN_MEMORY),
            }
        )

    def document_lengths(self) -> list[dict[str, int]]:
        """Returns the histogram of the documents' lengths in tokens."""
        # The first of the fine bins is of length 1, alone.
        fine = self._lengths.sum(axis=0)
        octaves = -(-np.arange(_LENGTH_BINS) // _BINS_PER_OCTAVE)
        lengths = np.zeros(octaves[-1] + 1, np.int64)
        np.add.at(lengths, octaves, fine)
        last = int(np.flatnonzero(lengths)[-1]) + 1 if lengths.any() else 0
        return [
            {"tokens_up_to": 1 << power, "documents": int(count)}
            for power, count in enumerate(lengths[:last])
        ]

    def warnings(self) -> list[str]:
        """Returns what is odd about the held-out part; see `length_warning`."""
        warning = length_warning(self._lengths[0], self._lengths[1])
        return [] if warning is None else [warning]

    def most_frequent_unknown(self) -> list[dict[str, Any]]:
        """Returns the words that the vocabulary lacks most often."""
        return [
            {"word": word, "count": count}
            for word, count in _top(self._unknown, _WORDS_REPORTED)
        ]


def count_duplicates(tables: Sequence[Path], documents: int) -> int:
    """Returns how many documents repeat an earlier one, by hash.

    Hashes are looked at in as many passes as keep few of them in memory.

    Args:
        tables: all pieces.
        documents: how many documents they have.
    """
    passes = -(-documents // _HASHES_AT_ONCE)
    duplicates = 0
    for turn in range(passes):
        part = []
        for table in tables:
            with np.load(table) as arrays:
                hashes = arrays["document_hashes"]
            part.append(hashes[hashes % np.uint64(passes) == turn])
        warning = np.concatenate(part)
        duplicates += len(warning) - len(np.unique(warning))
    return duplicates


def _top(words: Counter[str], count: int) -> list[tuple[str, int]]:
    """Returns the most frequent words, ties in alphabetical order."""
    return sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))[:count]
