"""Time in which the event loop was there to read what clients send.

A machine that is too busy to run the loop must not call its clients slow: a request
that has long arrived in the kernel would be answered 408, which clients take for final.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

# The loop looks at its clock so often; what a look comes later is not counted, in s.
_STEP_S = 0.05


class LoopClock:
    """Counts the seconds in which an event loop ran.

    It begins to count when it is first asked, in the loop that it is asked in.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._counted_s = 0.0
        self._last_s = 0.0

    def now_s(self) -> float:
        """Returns the seconds counted so far."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
            self._last_s = self.loop.time()
            self.loop.call_later(_STEP_S, self._look)
        return self._counted_s + min(self.loop.time() - self._last_s, _STEP_S)

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        """Gives a block so many counted seconds.

        Raises:
            TimeoutError: if it takes longer.
        """
        async with asyncio.timeout(None) as limit:
            # What came with the time's last event is still handed on: the block goes
            # on before it is cancelled.
            timer = Timer(self, seconds, lambda: limit.reschedule(0))
            try:
                yield
            finally:
                timer.cancel()

    def _look(self) -> None:
        if self.loop is not None:
            self._counted_s = self.now_s()
            self._last_s = self.loop.time()
            self.loop.call_later(_STEP_S, self._look)


class Timer:
    """Calls a function once after so many counted seconds.

    Args:
        clock: counts them.
        seconds: how many.
        late: the function.
    """

    def __init__(
        self, clock: LoopClock, seconds: float, late: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._due_s = clock.now_s() + seconds
        self._late = late
        self._handle: asyncio.Handle | None = None
        self._check()

    def cancel(self) -> None:
        """Calls nothing any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _check(self) -> None:
        left_s = self._due_s - self._clock.now_s()
        assert self._clock.loop is not None
        if left_s > 0:
            self._handle = self._clock.loop.call_later(left_s, self._check)
        else:
            self._handle = None
            self._late()
