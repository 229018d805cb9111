"""SIGTERM and SIGINT as a request to stop at the next safe point."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from common.command_line import CommandError


class StopRequested(CommandError):  # noqa: N818  (a request, not an error)
    """The user or the system asked the run to stop; its state is saved.

    Attributes:
        signal: the signal's name.
    """

    def __init__(self, signum: int) -> None:
        super().__init__("")
        self.signal = signal.Signals(signum).name
        self.exit_status = 128 + signum  # the shell's convention

    def explain(self, message: str) -> None:
        """Sets what the user reads."""
        self.args = (message,)


class StopSignals:
    """While it is entered, SIGTERM and SIGINT are noted instead of obeyed.

    A second signal of the same kind acts as it would have without it, for a user who
    does not want to wait.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Takes over the signals."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._previous[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives the signals back."""
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def check(self) -> None:
        """Raises `StopRequested` if a signal has come."""
        if self._received is not None:
            raise StopRequested(self._received)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._received = signum
        signal.signal(signum, self._previous[signum])
