"""Tables with a header: TSV, CSV and JSON lines, into rows of named cells."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.command_line import UsageError
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.lines import Line, format_of, read_lines

FORMAT_CHOICES = ("auto", "tsv", "csv", "jsonl")
QUOTING_CHOICES = ("auto", "standard", "none")
_SEPARATORS = {"tsv": "\t", "csv": ","}
_NAMES = {"\t": "a tab", ",": "a comma", ";": "a semicolon"}


@dataclass(frozen=True)
class Row:
    """The cells of a row, in the order of the header.

    Attributes:
        line: where the row begins, from 1 on.
        cells: its cells.
    """

    line: int
    cells: tuple[str, ...]


@dataclass
class Table:
    """What a file holds.

    Attributes:
        file: what messages call it.
        header: names of the columns.
        rows: below the header.
        quoting: ``"standard"`` if quotes wrap cells, ``"none"`` if they are text.
        bad: rows that could not be read.
    """

    file: str
    header: tuple[str, ...]
    rows: list[Row]
    quoting: str = "none"
    bad: BadRows = field(default_factory=lambda: BadRows(""))


def read_table(path: Path, *, format: str = "auto", quoting: str = "auto") -> Table:
    """Reads a table.

    Args:
        path: the file, UTF-8, maybe compressed.
        format: ``"tsv"``, ``"csv"``, ``"jsonl"``, or ``"auto"``, by the suffix.
        quoting: ``"standard"``: quotes wrap cells, as pandas and spreadsheets write
            them; ``"none"``: they are characters. ``"auto"``: standard for CSV; for
            TSV it is found out, and said on stderr where any cell begins with a quote.

    Returns:
        The table; what is wrong with rows stands in `bad`, not settled yet.

    Raises:
        UsageError: if the file or its header is not as expected.
    """
    bad = BadRows(str(path))
    kind = format_of(path, format)
    lines = read_lines(path, bad)
    if kind == "jsonl":
        return _json_table(path, lines, bad)
    separator = _SEPARATORS[kind]
    if not lines and not bad.count:
        raise UsageError(f"{path}: expected a header, found an empty file")
    if quoting == "auto":
        quoting = "standard" if kind == "csv" else _quoting_of_tsv(path, lines)
    if quoting == "standard":
        records = list(_quoted(lines, separator, bad))
    else:
        records = [Row(x.number, tuple(x.text.split(separator))) for x in lines]
    if not records:
        bad.settle(skip=False)
    header = tuple(name.strip() for name in records[0].cells)
    _check_header(path, header, separator)
    rows = []
    for row in records[1:]:
        if len(row.cells) <= 1 and not "".join(row.cells).strip():
            continue  # a blank line
        if len(row.cells) != len(header):
            bad.add(
                row.line,
                f"expected {len(header)} columns separated by {_NAMES[separator]}, as "
                f"in the header, found {len(row.cells)}",
            )
            continue
        rows.append(row)
    return Table(str(path), header, rows, quoting, bad)


def _check_header(path: Path, header: Sequence[str], separator: str) -> None:
    twice = sorted({name for name in header if list(header).count(name) > 1})
    if twice:
        raise UsageError(
            f"{path}:1: expected columns of different names, found twice: "
            f"{', '.join(map(repr, twice))}"
        )
    if len(header) == 1:
        for other, name in _NAMES.items():
            if other != separator and other in header[0]:
                hint = (
                    "Save it with commas or tabs between the cells"
                    if other == ";"
                    else "Give the format as an option, or name the file by it"
                )
                raise UsageError(
                    f"{path}:1: expected a header of names separated by "
                    f"{_NAMES[separator]}, found {header[0]!r}, separated by {name}. "
                    f"{hint}"
                )


def _quoted(lines: Sequence[Line], separator: str, bad: BadRows) -> Iterator[Row]:
    """Parses rows whose cells may be wrapped in quotes, over several lines too."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        reader = csv.reader(
            (line.text + "\n" for line in lines), delimiter=separator, strict=True
        )
        while True:
            first = reader.line_num
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                bad.add(lines[min(first, len(lines) - 1)].number, f"{error}")
                continue
            yield Row(lines[first].number, tuple(cells))
    finally:
        csv.field_size_limit(limit)


def _quoting_of_tsv(path: Path, lines: Sequence[Line]) -> str:
    """Finds out whether quotes wrap cells, and says what was found.

    They do if every cell that begins with a quote is one that the rules of CSV allow,
    all rows then have the header's width, and what is inside needed it: a tab, a line
    end, a doubled quote. One such cell without need leaves them text.
    """
    begins = sum(
        cell.startswith('"') for line in lines for cell in line.text.split("\t")
    )
    if not begins:
        return "none"
    unread = BadRows(str(path))
    rows = list(_quoted(lines, "\t", unread))
    width = len(rows[0].cells) if rows else 0
    wrapped = any(
        any(sign in cell for sign in '\t\n"') for row in rows for cell in row.cells
    )
    all_quoted = lines[0].text.startswith('"')
    sound = all(len(row.cells) == width for row in rows if row.cells)
    needless = not all_quoted and _needless_quotes(lines)
    if unread.count == 0 and sound and (wrapped or all_quoted) and not needless:
        print(
            f"{path}: quotes are read as wrapping cells, as pandas writes them "
            f"({begins} lines or cells begin with one); with quoting = none they are "
            "text",
            file=sys.stderr,
        )
        return "standard"
    print(
        f"{path}: quotes are read as text ({begins} cells begin with one); with "
        "quoting = standard they wrap cells",
        file=sys.stderr,
    )
    return "none"


def _needless_quotes(lines: Sequence[Line]) -> bool:
    """Whether a cell of one line is wrapped in quotes though nothing asks for it."""
    for line in lines:
        for cell in line.text.split("\t"):
            inside = cell[1:-1]
            if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inside:
                return True
    return False


def _json_table(path: Path, lines: Sequence[Line], bad: BadRows) -> Table:
    header: dict[str, None] = {}
    objects = []
    for line in lines:
        if not line.text.strip():
            continue
        try:
            content = json.loads(line.text, object_pairs_hook=_no_twins)
        except ValueError as error:
            bad.add(
                line.number,
                f"expected a JSON object, found {line.text[:60]!r} ({error})",
            )
            continue
        if not isinstance(content, dict):
            bad.add(line.number, f"expected a JSON object, found {line.text[:60]!r}")
            continue
        header.update(dict.fromkeys(content))
        objects.append((line.number, content))
    rows = [
        Row(number, tuple(_cell(content.get(name)) for name in header))
        for number, content in objects
    ]
    return Table(str(path), tuple(header), rows, "none", bad)


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the key {twice[0]!r} stands twice")
    return dict(pairs)


def _cell(value: object) -> str:
    """Returns a JSON value as a cell: null is empty, a list keeps its JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
