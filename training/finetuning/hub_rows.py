"""Labelled rows of a Hugging Face data set, by name."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from common.command_line import UsageError
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.table import Row, Table

PREFIX = "hf:"


def read_hub_rows(given: str) -> Table:
    """Returns the rows of ``hf:NAME[:CONFIGURATION]:SPLIT``, class ids as their names.

    Raises:
        UsageError: if the library isn't installed or finds no such data set.
    """
    name, *rest = given.removeprefix(PREFIX).split(":")
    if not name or len(rest) not in (1, 2):
        raise UsageError(
            f"{given}: expected hf:NAME:SPLIT or hf:NAME:CONFIGURATION:SPLIT"
        )
    configuration = rest[0] if len(rest) == 2 else None
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            f"{given}: needs the Hugging Face library, which is not installed. "
            "Install it with: pip install datasets (the extra 'datasets')"
        ) from error
    try:
        rows = datasets.load_dataset(name, configuration, split=rest[-1])
    except (OSError, ValueError) as error:  # the library's own errors are of these
        reason = str(error).splitlines()[0]
        raise UsageError(f"{given}: {type(error).__name__}: {reason}") from error
    header = tuple(rows.column_names)
    names = {column: _class_names(feature) for column, feature in rows.features.items()}
    table_rows = [
        Row(index, tuple(_cell(row[column], names[column]) for column in header))
        for index, row in enumerate(rows)
    ]
    print(f"{given}: {len(table_rows)} rows", file=sys.stderr)
    return Table(given, header, table_rows, "none", BadRows(given))


def _class_names(feature: Any) -> Sequence[str]:
    """Returns the names of a column of classes, or of lists of classes; or none."""
    return tuple(getattr(getattr(feature, "feature", feature), "names", None) or ())


def _cell(value: object, names: Sequence[str]) -> str:
    """Returns a value as a cell: classes by their names, lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, list) and names:
        return json.dumps([names[index] for index in value], ensure_ascii=False)
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    if names and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return names[value]
    return str(value)
