"""How much is computed at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from serving.server.status import Code, ServingError


class Gate:
    """Lets through so much work at a time; what does not fit waits its turn.

    Args:
        capacity: tokens that may be computed at a time.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._free = capacity
        self._turns = threading.Condition()
        self._waiting: list[object] = []

    @contextmanager
    def admit(self, tokens: int, timeout_s: float = 60.0) -> Iterator[None]:
        """Holds room for `tokens`, in the order of arrival.

        Raises:
            ServingError: UNAVAILABLE, if there is no room after `timeout_s` seconds.
        """
        needed = min(tokens, self._capacity)
        ticket = object()
        with self._turns:
            self._waiting.append(ticket)
            ready = self._turns.wait_for(
                lambda: self._waiting[0] is ticket and self._free >= needed, timeout_s
            )
            self._waiting.remove(ticket)
            if ready:
                self._free -= needed
            self._turns.notify_all()
        if not ready:
            raise ServingError(
                Code.UNAVAILABLE,
                f"No room for {tokens} tokens in {timeout_s:g} s; at most "
                f"{self._capacity} are computed at a time (--max-tokens-computing)",
            )
        try:
            yield
        finally:
            with self._turns:
                self._free += needed
                self._turns.notify_all()
