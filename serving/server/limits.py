"""What one request may cost, counted as work before anything of it is computed.

Bytes say little: 412 of them can claim a tensor of 50,000 texts. So rows, tokens and
the elements that a broadcast makes are counted too, each with a flag of its own.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.server.status import Code, ServingError, invalid_argument

Array = npt.NDArray[Any]

# A text is cut by the graph; no model of this project reads longer ones.
LONGEST_ROW_TOKENS = 512


@dataclass(frozen=True)
class Limits:
    """What a request, and all requests together, may take.

    The defaults keep a small model (hidden size 256) at 512 tokens under 4 GB.

    Attributes:
        max_request_bytes: largest REST body or gRPC message, in bytes.
        max_bodies_bytes: all REST bodies that are being read or computed, in bytes.
        max_rows: texts, examples or rows in one request.
        max_tokens: rows times the tokens of the longest, in one request; a text
            counts a token for each byte, at most `LONGEST_ROW_TOKENS`.
        max_tokens_computing: the same, of all that is computed at a time; what does
            not fit waits.
        max_text_bytes: bytes of all strings of one request.
        max_pending: requests that may wait or run, for REST and gRPC each.
        max_connections: REST connections that may be open at a time.
        read_timeout_s: within so many seconds the head of a REST request must have
            arrived, and within as many more its body.
    """

    max_request_bytes: int = 8 * 2**20
    max_bodies_bytes: int = 32 * 2**20
    max_rows: int = 1024
    max_tokens: int = 65_536
    max_tokens_computing: int = 65_536
    max_text_bytes: int = 8 * 2**20
    max_pending: int = 256
    max_connections: int = 1024
    read_timeout_s: float = 10.0

    def check_shape(self, name: str, shape: tuple[int, ...], what: str) -> None:
        """Refuses a shape that claims too much, before it is filled.

        Args:
            name: the input's name, for the error.
            shape: the sizes that the request claims.
            what: ``string`` or the type of numbers.

        Raises:
            ServingError: INVALID_ARGUMENT, naming the limit and its flag.
        """
        if shape and shape[0] > self.max_rows:
            raise _over(f"input {name}: rows", shape[0], self.max_rows, "--max-rows")
        elements = 1
        for size in shape:
            elements *= size
        limit = self.max_rows if what == "string" else self.max_tokens
        flag = "--max-rows" if what == "string" else "--max-tokens"
        if elements > limit:
            raise _over(f"input {name}: elements", elements, limit, flag)

    def check_text(self, name: str, size: int) -> None:
        """Refuses more bytes of text than one request may hold."""
        if size > self.max_text_bytes:
            raise _over(
                f"input {name}: bytes of text",
                size,
                self.max_text_bytes,
                "--max-text-kb",
            )

    def check_examples(self, examples: int, context: int) -> None:
        """Refuses Examples before each gets a copy of what they share.

        Args:
            examples: how many there are.
            context: bytes of the part that each gets.
        """
        self.check_shape("inputs", (examples,), "string")
        self.check_text("inputs", examples * context)

    def check(self, inputs: Mapping[str, Array]) -> None:
        """Refuses inputs that would cost too much.

        Raises:
            ServingError: INVALID_ARGUMENT, naming the limit and its flag.
        """
        text_bytes = 0
        for name, array in inputs.items():
            kind = "string" if array.dtype == object else array.dtype.name
            self.check_shape(name, array.shape, kind)
            if kind == "string":
                text_bytes += sum(map(len, array.ravel()))
                self.check_text(name, text_bytes)
        tokens = work(inputs)
        if tokens > self.max_tokens:
            raise _over("rows times tokens", tokens, self.max_tokens, "--max-tokens")


def work(inputs: Mapping[str, Array]) -> int:
    """Returns rows times the tokens of the longest row, at least 1.

    Args:
        inputs: strings (B,) as object arrays of bytes, numbers of any shape.
    """
    widest, rows = 0, 1
    for array in inputs.values():
        if array.ndim:
            rows = max(rows, len(array))
        if array.dtype == object:
            longest = max(map(len, array.ravel()), default=0)
            # A token has a byte at least; [CLS] and [SEP] come on top.
            widest += min(longest + 2, LONGEST_ROW_TOKENS)
        elif array.ndim > 1:
            widest = max(widest, int(np.prod(array.shape[1:], dtype=np.int64)))
    return max(rows * min(widest, 2**31), 1)


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


def _over(what: str, received: int, limit: int, flag: str) -> ServingError:
    return invalid_argument(f"{what}: at most {limit} ({flag}). Received: {received}")
