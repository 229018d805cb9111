"""How much is computed at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from serving.server.status import Code, ServingError


class Gate:
    """Lets through so much work at a time; what does not fit waits its turn.

    Args:
        capacity: tokens that may be computed at a time.
        patience_s: no work waits longer, in seconds: whoever asked has given up then.
    """

    def __init__(self, capacity: int, patience_s: float = 30.0) -> None:
        self._capacity = capacity
        self._patience_s = patience_s
        self._free = capacity
        self._turns = threading.Condition()
        self._waiting: list[object] = []

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Holds room for `tokens`, in the order of arrival.

        Raises:
            ServingError: UNAVAILABLE, if there is no room in time.
        """
        needed = min(tokens, self._capacity)
        ticket = object()
        with self._turns:
            self._waiting.append(ticket)
            ready = self._turns.wait_for(
                lambda: self._waiting[0] is ticket and self._free >= needed,
                self._patience_s,
            )
            self._waiting.remove(ticket)
            if ready:
                self._free -= needed
            self._turns.notify_all()
        if not ready:
            raise ServingError(
                Code.UNAVAILABLE,
                f"No room for {tokens} tokens in {self._patience_s:g} s; at most "
                f"{self._capacity} are computed at a time (--max-tokens-computing)",
            )
        try:
            yield
        finally:
            with self._turns:
                self._free += needed
                self._turns.notify_all()
