"""Labelled texts out of a table: which columns, and what each cell must be."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.command_line import UsageError
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.table import Table, read_table

_SECOND_TEXTS = ("text_b", "text2", "text_2", "sentence2", "sentence_2", "second")


@dataclass(frozen=True)
class LabelledExample:
    """A text, or a pair of texts, with its label.

    Attributes:
        texts: one text or two.
        label: the cell: a class, a number, or several classes.
        line: where it stands in its file; it makes no difference between examples.
    """

    texts: tuple[str, ...]
    label: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class TableOptions:
    """How a table of labelled texts is read.

    Attributes:
        text_column: name of the column of texts.
        pair_column: name of the column of second texts; None takes ``text_pair`` where
            there is one, and "" reads no pairs.
        label_column: name of the column of labels; None where there are none.
        format: ``"auto"`` (by suffix), ``"tsv"``, ``"csv"`` or ``"jsonl"``.
        quoting: ``"auto"``, ``"standard"`` or ``"none"``; see `read_table`.
        skip_bad_rows: whether rows that are not as expected are left out and counted.
    """

    text_column: str = "text"
    pair_column: str | None = None
    label_column: str | None = "label"
    format: str = "auto"
    quoting: str = "auto"
    skip_bad_rows: bool = False


@dataclass(frozen=True)
class LabelledTable:
    """The labelled texts of a file.

    Attributes:
        file: what messages call it.
        examples: in the order of the file.
        ignored_columns: columns that nothing was read from.
        skipped_rows: bad rows that were left out.
        quoting: whether quotes wrapped cells.
    """

    file: str
    examples: list[LabelledExample]
    ignored_columns: tuple[str, ...]
    skipped_rows: int
    quoting: str


LabelCheck = Callable[[str], str | None]
"""Says what is wrong with a label, or None."""


def read_labelled_table(
    path: Path, options: TableOptions, check_label: LabelCheck | None = None
) -> LabelledTable:
    """Reads the labelled texts of a file.

    Labels are stripped of white space around them; texts stay as they are.

    Args:
        path: the file.
        options: how to read it.
        check_label: says what is wrong with a label.

    Raises:
        UsageError: naming the file, the lines of the first ten bad rows, and how many
            there are.
    """
    table = read_table(path, format=options.format, quoting=options.quoting)
    return examples_of(table, options, check_label)


def examples_of(
    table: Table, options: TableOptions, check_label: LabelCheck | None = None
) -> LabelledTable:
    """Returns the labelled texts of a table read already: `read_labelled_table`."""
    bad = table.bad
    header = table.header
    pair = options.pair_column
    if pair is None:
        pair = "text_pair" if "text_pair" in header else ""
    wanted = [options.text_column, *([pair] if pair else [])]
    if options.label_column is not None:
        wanted.append(options.label_column)
    if not header:
        bad.settle(skip=False)
        raise UsageError(f"{table.file}: expected at least one row, found none")
    _check_columns(table.file, header, wanted, options)
    places = [header.index(name) for name in wanted]
    texts_end = 2 if pair else 1
    examples = []
    for row in table.rows:
        cells = [row.cells[place] for place in places]
        texts = tuple(cells[:texts_end])
        label = cells[texts_end].strip() if options.label_column is not None else ""
        problem = _problem(wanted, texts, label, options, check_label)
        if problem:
            bad.add(row.line, problem)
        else:
            examples.append(LabelledExample(texts, label, row.line))
    skipped = bad.settle(
        skip=options.skip_bad_rows,
        hint="Mend the rows, or leave them out with the option to skip bad rows",
    )
    if not examples:
        raise UsageError(
            f"{table.file}: expected at least one row below the header, found none"
        )
    ignored = tuple(name for name in header if name not in wanted)
    if ignored:
        hint = ""
        if not pair and any(name.lower() in _SECOND_TEXTS for name in ignored):
            hint = ". If one of them is the second text of a pair, name it as such"
        print(
            f"warning: {table.file}: columns that are not read: "
            f"{', '.join(map(repr, ignored))}{hint}",
            file=sys.stderr,
        )
    return LabelledTable(table.file, examples, ignored, skipped, table.quoting)


def number_problem(label: str) -> str | None:
    """Says what is wrong with a label that must be a finite number, or None."""
    try:
        value = float(label)
    except ValueError:
        return f"label: expected a number, found {label!r}"
    if not math.isfinite(value):
        return f"label: expected a finite number, found {label!r}"
    return None


def known_label(labels: Sequence[str]) -> LabelCheck:
    """Returns a check that a label is one of some."""
    known = frozenset(labels)
    listed = ", ".join(labels[:10]) + (" ..." if len(labels) > 10 else "")

    def check(label: str) -> str | None:
        if label in known:
            return None
        return f"label: expected one of {listed}, found {label!r}"

    return check


def split_labels(cell: str, separator: str = ",") -> list[str]:
    """Returns the classes of a cell of several: ``a,b``, or a JSON list."""
    if cell.startswith("["):
        try:
            items = json.loads(cell)
        except ValueError:
            items = None
        if isinstance(items, list):
            return [str(item).strip() for item in items if str(item).strip()]
    return [part.strip() for part in cell.split(separator) if part.strip()]


def unseen_labels(
    file: str, examples: Iterable[LabelledExample], known: Sequence[str]
) -> None:
    """Refuses labels that are not among some.

    Raises:
        UsageError: naming file and lines.
    """
    bad = BadRows(file)
    check = known_label(known)
    for example in examples:
        problem = check(example.label)
        if problem:
            bad.add(example.line, f"{problem}, which the training examples lack")
    bad.settle(skip=False)


def _problem(
    names: Sequence[str],
    texts: tuple[str, ...],
    label: str,
    options: TableOptions,
    check_label: LabelCheck | None,
) -> str | None:
    for name, text in zip(names, texts, strict=False):
        if not text.strip():
            return f"expected a text in the column {name!r}, found none"
    if options.label_column is None:
        return None
    if not label:
        return f"expected a label in the column {options.label_column!r}, found none"
    return check_label(label) if check_label else None


def _check_columns(
    file: str, header: Sequence[str], wanted: Sequence[str], options: TableOptions
) -> None:
    missing = [name for name in wanted if name not in header]
    if not missing:
        if len(set(wanted)) != len(wanted):
            raise UsageError(
                f"{file}:1: expected different columns for texts and label, found "
                f"{', '.join(map(repr, wanted))}"
            )
        return
    by_lower = {name.lower(): name for name in header}
    near = [by_lower[m.lower()] for m in missing if m.lower() in by_lower]
    hint = f" (names are compared with their case: {near[0]!r})" if near else ""
    raise UsageError(
        f"{file}:1: expected a header with the columns {', '.join(wanted)}, found "
        f"{', '.join(map(repr, header))}{hint}. Other names are given as options: the "
        "columns of text, second text and label"
    )
