"""Reads the labelled examples that a quantised graph is measured on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from export.signatures import TEXT_INPUTS


@dataclass(frozen=True)
class Example:
    """One text, or a pair of texts, with its label."""

    texts: tuple[str, ...]
    label: str


def read_examples(
    path: Path, *, pairs: bool, labels: Sequence[str] | None
) -> list[Example]:
    """Reads a TSV with a header that names text, label and, for pairs, text_pair.

    Quote characters mean nothing: a row is a line, a cell what stands between tabs.

    Args:
        path: the file, UTF-8.
        pairs: whether to read text_pair.
        labels: the labels there may be; None for a regression: numbers.

    Raises:
        UsageError: naming the file and the line that is not as expected.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--eval: {path}: cannot be read: {error}") from None
    header = [cell.strip() for cell in lines[0].rstrip("\r").split("\t")]
    columns = [*TEXT_INPUTS[: 2 if pairs else 1], "label"]
    missing = [name for name in columns if name not in header]
    if missing:
        raise UsageError(
            f"{path}:1: expected a header with the columns {', '.join(columns)}, "
            f"separated by tabs. Received: {header}"
        )
    examples = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.rstrip("\r").split("\t")
        if cells == [""]:
            continue
        if len(cells) != len(header):
            raise UsageError(
                f"{path}:{number}: expected {len(header)} columns separated by tabs. "
                f"Received: {len(cells)}"
            )
        *texts, label = (cells[header.index(name)] for name in columns)
        label = label.strip()
        if labels is not None and label not in labels:
            raise UsageError(
                f"{path}:{number}: label: expected one of {', '.join(labels)}. "
                f"Received: {label!r}"
            )
        if labels is None:
            _check_number(label, f"{path}:{number}")
        examples.append(Example(tuple(texts), label))
    if not examples:
        raise UsageError(f"{path}: expected at least one example below the header")
    return examples


def read_texts(path: Path, *, pairs: bool) -> list[Example]:
    """Reads texts without labels, one a line; of pairs, two with a tab between.

    Raises:
        UsageError: naming the file and the line that is not as expected.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--calibrate: {path}: cannot be read: {error}") from None
    examples = []
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        texts = line.split("\t") if pairs else [line]
        if len(texts) != (2 if pairs else 1):
            raise UsageError(
                f"{path}:{number}: expected two texts separated by a tab. "
                f"Received: {len(texts)}"
            )
        examples.append(Example(tuple(texts), ""))
    if not examples:
        raise UsageError(f"--calibrate: {path}: expected at least one text")
    return examples


def _check_number(label: str, where: str) -> None:
    try:
        float(label)
    except ValueError:
        raise UsageError(
            f"{where}: label: expected a number. Received: {label!r}"
        ) from None
