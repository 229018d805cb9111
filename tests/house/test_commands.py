"""Help is quick and light, and wrong usage is an error without a traceback."""

import subprocess
import sys
import time

import pytest

from tests.paths import REPOSITORY

APPLICATIONS = ["training", "export", "serving"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _commands(application: str) -> list[str]:
    code = f"from {application}.__main__ import COMMANDS; print(*COMMANDS, sep='\\n')"
    return _run("-c", code).stdout.split()


@pytest.mark.parametrize("application", APPLICATIONS)
def test_help_of_every_command_needs_no_tensorflow(application: str) -> None:
    commands = _commands(application)
    assert commands
    # One process for all: what one command imports, none may.
    code = f"""
import contextlib, io, sys
from {application}.__main__ import main
for command in {[None, *commands]!r}:
    sys.argv = ["{application}", *([command] if command else []), "--help"]
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            main()
    except SystemExit as end:
        assert end.code == 0, (command, end.code)
    assert "usage" in output.getvalue(), command
heavy = {{"tensorflow", "keras", "keras_hub"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = _run("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("application", APPLICATIONS)
def test_wrong_usage_exits_with_2_and_no_traceback(application: str) -> None:
    for arguments in (["nonsense"], ["--nonsense"], []):
        done = _run("-m", application, *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert "error:" in done.stderr
        assert "Traceback" not in done.stderr


def test_help_is_quick() -> None:
    # A generous bound: it fails when TensorFlow is imported, not when a core is busy.
    start = time.perf_counter()
    assert _run("-m", "training", "--help").returncode == 0
    alone = time.perf_counter()
    assert _run("-c", "pass").returncode == 0
    assert alone - start < 20 * (time.perf_counter() - alone) + 1
