"""One line of JSON for each request, without what users wrote unless that is asked."""

import datetime
import json
import logging
import logging.handlers
import sys
import threading
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

# Of paths and bodies no more is written, in characters.
_LONGEST = 2000


class _Handler(logging.handlers.WatchedFileHandler):
    """Follows the file's name, so that it can be rotated; no error stops a request."""

    _failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        if not self._failed:
            self._failed = True
            _log.error("the access log cannot be written: %s", sys.exc_info()[1])


class AccessLog:
    """Writes what was asked and how it was answered.

    Args:
        target: a file, to which lines are added; ``-``: standard error.
        with_text: whether bodies and error messages, which quote them, are written.

    Raises:
        OSError: if the file cannot be opened.
    """

    def __init__(self, target: str, with_text: bool = False) -> None:
        self.with_text = with_text
        self._handler: logging.Handler = (
            logging.StreamHandler(sys.stderr)
            if target == "-"
            else _Handler(Path(target), encoding="utf-8")
        )
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self._lock = threading.Lock()

    def write(self, *, milliseconds: float, text: str = "", **fields: Any) -> None:
        """Writes a line.

        Args:
            milliseconds: from the head of the request to the end of its answer.
            text: what the user sent, or an error that may quote it.
            **fields: names and values to log; the target of a request without its
                query, which no path of the API has.
        """
        now = datetime.datetime.now(datetime.UTC)
        line = {
            "time": now.isoformat(timespec="milliseconds"),
            **{
                key: value[:_LONGEST] if isinstance(value, str) else value
                for key, value in fields.items()
            },
            "ms": round(milliseconds, 3),
        }
        if self.with_text:
            line["text"] = text[:_LONGEST]
        record = logging.makeLogRecord({"msg": json.dumps(line, ensure_ascii=True)})
        with self._lock:
            self._handler.handle(record)

    def close(self) -> None:
        """Closes the file."""
        self._handler.close()
