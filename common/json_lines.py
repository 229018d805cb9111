"""Logs of one JSON object a line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.command_line import CommandError, json_safe


def append_line(file: Path, record: Mapping[str, Any]) -> None:
    """Adds an object to a log."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(json_safe(dict(record))) + "\n")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Reads whole lines; a torn last line is what a killed process leaves.

    Raises:
        CommandError: naming the line that is no JSON.
    """
    if not file.exists():
        return []
    lines = file.read_text("utf-8").split("\n")[:-1]
    records = []
    for index, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise CommandError(
                f"{file}:{index}: expected a JSON object, found {line[:60]!r}"
            ) from error
    return records
