"""Progress off a terminal: whole lines, at the end too."""

import contextlib
import io

from training.run.progress import Progress


def test_lines_off_a_terminal() -> None:
    stream = io.StringIO()
    with Progress(4, "steps", "fit", initial=1, stream=stream) as progress:
        progress.update(2)
        progress.note("a note")
        progress.set(loss=0.125)
        progress.update(1)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "a note"
    assert lines[1].startswith("fit: 100% 4/4 steps [")
    assert "loss=0.125" in lines[1]
    assert len(lines) == 2


def test_an_unknown_total_and_a_failure_still_leave_a_line() -> None:
    stream = io.StringIO()
    with (
        contextlib.suppress(ZeroDivisionError),
        Progress(None, "bytes", "read", stream=stream) as progress,
    ):
        progress.update(7)
        progress.update(7 // 0)
    assert stream.getvalue().startswith("read: 7 bytes [")


def test_a_terminal_gets_a_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Progress(2, "steps", "fit", stream=stream) as progress:
        progress.update(2)
    assert "100%" in stream.getvalue()
    assert "\r" in stream.getvalue()
