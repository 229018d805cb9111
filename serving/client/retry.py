"""Tries a request again where that can help: after a while, and not for ever."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")


class ClientError(Exception):
    """A request failed for good.

    Attributes:
        code: the HTTP status or the name of the gRPC status; None where no answer
            came.
    """

    def __init__(self, message: str, code: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code


class TemporaryError(Exception):
    """One try failed, and the next may not: the server is busy or not there.

    Attributes:
        code: as that of `ClientError`.
        wait_s: how long the server asks to wait, in seconds, or None.
    """

    def __init__(
        self,
        message: str,
        code: int | str | None = None,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.wait_s = wait_s


@dataclass(frozen=True)
class Retry:
    """How often and when a request is tried again.

    The wait doubles with each try. Of each wait a random half is taken off, so that
    clients that were refused together do not come back together.

    Attributes:
        tries: how often a request is sent at most.
        first_wait_s: wait before the second try, in seconds.
        longest_wait_s: no wait is longer, in seconds.
    """

    tries: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0

    def run(
        self,
        request: Callable[[float], Result],
        what: str,
        deadline_s: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Result:
        """Sends a request until it is answered.

        Args:
            request: sends it once, given how many seconds it may take; raises
                `TemporaryError` where another try may help.
            what: what is sent where, for the error.
            deadline_s: how long all tries and waits may take together, in seconds.
            sleep: waits for some seconds.

        Raises:
            ClientError: if the last try fails or the time is up, with the last reason.
        """
        tries = _Tries(self, what, deadline_s)
        while True:
            try:
                return request(tries.left_s())
            except TemporaryError as error:
                sleep(tries.pause_after(error))

    async def run_async(
        self,
        request: Callable[[float], Awaitable[Result]],
        what: str,
        deadline_s: float = 30.0,
    ) -> Result:
        """Does as `run` does, and lets others work while it waits."""
        tries = _Tries(self, what, deadline_s)
        while True:
            try:
                return await request(tries.left_s())
            except TemporaryError as error:
                await asyncio.sleep(tries.pause_after(error))


class _Tries:
    """Counts the tries of one request, and the time that they have left."""

    def __init__(self, retry: Retry, what: str, deadline_s: float) -> None:
        if retry.tries < 1:
            raise ValueError(f"tries must be at least 1. Received: tries={retry.tries}")
        self._retry = retry
        self._what = what
        self._deadline_s = deadline_s
        self._started = time.monotonic()
        self._wait_s = retry.first_wait_s
        self._number = 1

    def left_s(self) -> float:
        """Returns how many seconds the next try may take."""
        return max(self._deadline_s - (time.monotonic() - self._started), 0.001)

    def pause_after(self, error: TemporaryError) -> float:
        """Returns how many seconds to wait before the next try.

        Raises:
            ClientError: if there is none.
        """
        seconds = time.monotonic() - self._started
        pause = max(self._wait_s * random.uniform(0.5, 1.0), error.wait_s or 0.0)
        pause = min(pause, self._retry.longest_wait_s)
        # No wait that the deadline would end without another try.
        if self._number == self._retry.tries or seconds + pause >= self._deadline_s:
            tries = "1 try" if self._number == 1 else f"{self._number} tries"
            raise ClientError(
                f"{self._what}: no answer after {tries} in {seconds:.1f} s; the last "
                f"failed with: {error}",
                error.code,
            ) from error
        self._number += 1
        self._wait_s *= 2
        return pause


def batches(items: Sequence[Item], max_batch: int) -> Iterator[Sequence[Item]]:
    """Yields `items` in order, at most `max_batch` at a time."""
    if max_batch < 1:
        raise ValueError(f"max_batch must be at least 1. Received: {max_batch=}")
    for start in range(0, len(items), max_batch):
        yield items[start : start + max_batch]
