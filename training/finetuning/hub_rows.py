"""Labelled rows of a Hugging Face data set, by name."""

import sys

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
    names = {
        column: feature.names
        for column, feature in rows.features.items()
        if isinstance(feature, datasets.ClassLabel)
    }

    def cell(column: str, value: object) -> str:
        if value is None:
            return ""
        if column in names and isinstance(value, int) and value >= 0:
            return str(names[column][value])
        if isinstance(value, list):
            return ",".join(map(str, value))
        return str(value)

    found = [
        Row(number, tuple(cell(column, row[column]) for column in header))
        for number, row in enumerate(rows)
    ]
    print(f"{given}: {len(found)} rows", file=sys.stderr)
    return Table(given, header, found, "none", BadRows(given))
