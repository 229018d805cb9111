"""Reads the labelled examples that a quantised graph is measured on."""

from collections.abc import Sequence
from pathlib import Path

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
