"""Running a command of an application in this process."""

import contextlib
import importlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

from common.command_line import run_application


class Ran(NamedTuple):
    """How a command ended: its status, what it printed last, and stderr."""

    status: int
    output: Any
    errors: str


def run(application: str, *words: str | Path) -> Ran:
    """Runs ``python -m APPLICATION WORDS...``."""
    commands = importlib.import_module(f"{application}.__main__").COMMANDS
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_application(
            f"python -m {application}", "", commands, [str(word) for word in words]
        )
    lines = out.getvalue().splitlines()
    return Ran(status, json.loads(lines[-1]) if lines else None, err.getvalue())
