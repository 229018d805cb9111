"""Reads the labelled examples that a quantised graph is measured on."""

from collections.abc import Sequence
from pathlib import Path

from common.command_line import UsageError
from common.labelled_tables.examples import (
    LabelledExample,
    TableOptions,
    known_label,
    number_problem,
    read_labelled_table,
)
from export.signatures import TEXT_INPUTS


def read_examples(
    path: Path, *, pairs: bool, labels: Sequence[str] | None
) -> list[LabelledExample]:
    """Reads a table whose header names text, label and, for pairs, text_pair.

    Args:
        path: the file (TSV, CSV or JSON lines by its suffix, maybe compressed).
        pairs: whether to read text_pair.
        labels: the labels there may be; None for a regression: finite numbers.

    Raises:
        UsageError: naming the file and the lines that are not as expected.
    """
    options = TableOptions(pair_column=TEXT_INPUTS[1] if pairs else "")
    check = number_problem if labels is None else known_label(labels)
    return read_labelled_table(path, options, check).examples


def read_texts(path: Path, *, pairs: bool) -> list[LabelledExample]:
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
        examples.append(LabelledExample(tuple(texts), "", number))
    if not examples:
        raise UsageError(f"--calibrate: {path}: expected at least one text")
    return examples
