"""What a corpus is like: lengths, unknown words, duplicates; as JSON and a picture."""

import io
from typing import TYPE_CHECKING, Any

from common.figures import new_figure

if TYPE_CHECKING:
    from training.data.engine import Outcome

REPORT_FILE = "report.json"
PICTURE_FILE = "report.png"


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
        "warnings": outcome.observations.warnings(),
    }


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
    lines += [f"warning: {warning}" for warning in report["warnings"]]
    if unknown:
        lines.append(f"most frequent unknown words: {unknown}")
    return "\n".join(lines)


def picture(report: dict[str, Any]) -> bytes:
    """Draws lengths and unknown words; returns a PNG."""
    figure, (lengths, unknown) = new_figure((10, 4), 1, 2)
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
