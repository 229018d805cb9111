"""Rows that are not as expected: all of them are counted, the first ten are named."""

import sys

from common.command_line import UsageError

NAMED = 10
"""How many bad rows a message names."""


class BadRows:
    """Collects what is wrong with the rows of a file.

    Args:
        file: what messages call the file.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._first: list[str] = []
        self.count = 0

    def add(self, line: int | str, reason: str) -> None:
        """Notes a row, by its line (from 1 on) or by another name of its place."""
        self.count += 1
        if len(self._first) < NAMED:
            self._first.append(f"{self._file}:{line}: {reason}")

    def settle(self, *, skip: bool, hint: str = "") -> int:
        """Raises if there are bad rows, or tells how many are left out.

        Args:
            skip: whether they may be left out.
            hint: a sentence that helps, for the message.

        Returns:
            How many rows were left out.

        Raises:
            UsageError: naming the first ten and their number.
        """
        if not self.count:
            return 0
        listed = "\n".join(self._first)
        if self.count > len(self._first):
            listed += f"\n... and {self.count - len(self._first)} more"
        if not skip:
            more = "" if self.count == 1 else f" ({self.count} bad rows)"
            raise UsageError(f"{listed}{more}" + (f"\n{hint}" if hint else ""))
        print(
            f"warning: {self._file}: {self.count} bad rows are left out:\n{listed}",
            file=sys.stderr,
        )
        return self.count
