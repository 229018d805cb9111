"""One progress display for every stage: a bar on a terminal, lines in a log.

Everything goes to stderr, because the last line of stdout is a command's result.
"""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows how far a piece of work is, its rate and the time left.

    On a terminal it is one bar that redraws itself. Elsewhere (a log file, a CI job)
    a bar would leave thousands of half lines, so it prints a whole line when the work
    starts to take long, every ten seconds, and at the end.

    Args:
        total: how many units the work has, or None where nobody knows.
        unit: what is counted, in the plural, for example ``"steps"``.
        label: a few words before the bar, for example ``"supernet"``.
        initial: units that were already done before (a resumed run): they count
            towards the total, not towards the rate.
        stream: where to write, by default stderr.

    Example:
        >>> with Progress(total=3, unit="steps", label="count") as progress:
        ...     for step in range(3):
        ...         progress.set(loss=1.0 / (step + 1))
        ...         progress.update(1)
    """

    def __init__(
        self,
        total: int | None,
        unit: str,
        label: str,
        *,
        initial: int = 0,
        stream: TextIO | None = None,
    ) -> None:
        self._total = total
        self._unit = unit
        self._label = label
        self._initial = initial
        self._stream = sys.stderr if stream is None else stream
        self._done = initial
        self._figures: dict[str, Any] = {}
        self._started = time.monotonic()
        self._last_line = self._started
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Self:
        """Starts the clock and, on a terminal, draws the empty bar."""
        self._started = self._last_line = time.monotonic()
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=self._total,
                initial=self._initial,
                desc=self._label,
                unit=f" {self._unit}",
                file=self._stream,
                dynamic_ncols=True,
                mininterval=0.2,
                smoothing=0.1,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the last state on the screen, also when the work failed."""
        if self._bar is not None:
            self._bar.close()
        else:
            self._print_line()

    def update(self, count: int = 1) -> None:
        """Counts `count` more units as done."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._print_line()

    def set(self, **figures: Any) -> None:
        """Replaces the figures shown after the bar, for example ``loss=6.25``."""
        self._figures = figures
        if self._bar is not None:
            self._bar.set_postfix(figures, refresh=False)

    def note(self, text: str) -> None:
        """Prints a line of its own without tearing the bar apart."""
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def _print_line(self) -> None:
        from tqdm import tqdm

        self._last_line = time.monotonic()
        figures = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self._figures.items()
        )
        line = tqdm.format_meter(
            n=self._done,
            total=self._total,
            elapsed=max(self._last_line - self._started, 1e-9),
            initial=self._initial,
            prefix=self._label,
            unit=f" {self._unit}",
            postfix=figures or None,
            ncols=None,
            bar_format=None if self._total is None else _LINE,
        )
        print(line, file=self._stream, flush=True)


_LINE = (
    "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt}{unit} "
    "[{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)
