"""What a corpus is like: lengths, unknown words, duplicates; as JSON and a picture."""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from training.data.engine import Outcome

REPORT_FILE = "report.json"
PICTURE_FILE = "report.png"

_WORD = re.compile(r"\w+|[^\w\s]")
_LENGTH_BINS = 32
_LINES_LOOKED_AT = 5000
_WORDS_KEPT = 1000
_WORDS_IN_MEMORY = 100_000
_WORDS_REPORTED = 50
_HASHES_AT_ONCE = 1 << 25


class ChunkObservations:
    """What one chunk of the corpus adds to the report."""

    def __init__(self) -> None:
        self.lengths = np.zeros(_LENGTH_BINS, np.int64)
        self.unknown: Counter[str] = Counter()

    def add_documents(
        self, splits: npt.NDArray[np.int64], line_counts: Sequence[int]
    ) -> None:
        """Adds the lengths of documents, in tokens, to bins of powers of two.

        Args:
            splits: (lines + 1,) offsets of the lines' tokens.
            line_counts: number of lines of each document.
        """
        ends = splits[np.cumsum([0, *line_counts])]
        bins = np.ceil(np.log2(np.maximum(np.diff(ends), 1))).astype(int)
        self.lengths += np.bincount(bins, minlength=_LENGTH_BINS)[:_LENGTH_BINS]

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
        self._lengths = np.zeros(_LENGTH_BINS, np.int64)
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
        lengths = self._lengths
        last = int(np.flatnonzero(lengths)[-1]) + 1 if lengths.any() else 0
        return [
            {"tokens_up_to": 1 << power, "documents": int(count)}
            for power, count in enumerate(lengths[:last])
        ]

    def most_frequent_unknown(self) -> list[dict[str, Any]]:
        """Returns the words that the vocabulary lacks most often."""
        return [
            {"word": word, "count": count}
            for word, count in _top(self._unknown, _WORDS_REPORTED)
        ]


def corpus_report(outcome: "Outcome", vocabulary_size: int) -> dict[str, Any]:
    """Puts the report together.

    Args:
        outcome: what preparation found.
        vocabulary_size: number of entries of the vocabulary.
    """
    counts = outcome.counts
    return {
        **counts,
        "vocabulary_size": vocabulary_size,
        "unknown_fraction": counts["unknown_tokens"] / max(1, counts["tokens"]),
        "duplicate_documents": outcome.duplicate_documents,
        "tokens_per_document": counts["tokens"] / max(1, counts["documents"]),
        "document_lengths": outcome.observations.document_lengths(),
        "most_frequent_unknown": outcome.observations.most_frequent_unknown(),
    }


def _top(words: Counter[str], count: int) -> list[tuple[str, int]]:
    """Returns the most frequent words, ties in alphabetical order."""
    return sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))[:count]


def count_duplicates(tables: Sequence[Path], documents: int) -> int:
    """Returns how many documents repeat an earlier one, by hash.

    Hashes are looked at in as many passes as keep few of them in memory.

    Args:
        tables: all pieces.
        documents: how many documents they have.
    """
    passes = -(-documents // _HASHES_AT_ONCE)
    duplicates = 0
    for number in range(passes):
        part = []
        for table in tables:
            with np.load(table) as arrays:
                hashes = arrays["document_hashes"]
            part.append(hashes[hashes % np.uint64(passes) == number])
        found = np.concatenate(part)
        duplicates += len(found) - len(np.unique(found))
    return duplicates


def table(report: dict[str, Any]) -> str:
    """Returns the report as lines of text."""
    rows = [
        (
            name.replace("_", " "),
            f"{value:,}" if isinstance(value, int) else f"{value:.4g}",
        )
        for name, value in report.items()
        if isinstance(value, (int, float))
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value:>15}" for name, value in rows]
    unknown = ", ".join(
        f"{row['word']} ({row['count']})"
        for row in report["most_frequent_unknown"][:10]
    )
    if unknown:
        lines.append(f"most frequent unknown words: {unknown}")
    return "\n".join(lines)


def picture(report: dict[str, Any]) -> bytes:
    """Draws lengths and unknown words; returns a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    lengths, unknown = figure.subplots(1, 2)
    rows = report["document_lengths"]
    # Without the short lengths that no document has.
    while rows and not rows[0]["documents"]:
        rows = rows[1:]
    lengths.bar(range(len(rows)), [row["documents"] for row in rows])
    lengths.set_xticks(
        range(len(rows)), [f"{row['tokens_up_to']:,}" for row in rows], rotation=90
    )
    lengths.set(xlabel="tokens, up to", ylabel="documents", title="Document lengths")
    words = report["most_frequent_unknown"][:15][::-1]
    unknown.barh(range(len(words)), [row["count"] for row in words])
    # Code points, because fonts lack just the characters that are unknown.
    unknown.set_yticks(range(len(words)), [ascii(row["word"])[1:-1] for row in words])
    unknown.set(xlabel="occurrences", title="Most frequent unknown words")
    if not words:
        unknown.set(xticks=[], xlabel="")
        unknown.text(
            0.5, 0.5, "every word is known", ha="center", transform=unknown.transAxes
        )
    # Without the library's version in it, equal reports are equal files.
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=100, metadata={"Software": None})
    return content.getvalue()
