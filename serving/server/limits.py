"""What one request may cost, counted as work before anything of it is computed.

Bytes say little: 412 of them can claim a tensor of 50,000 texts. So rows, tokens and
the elements that a broadcast makes are counted too, each with a flag of its own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.server.status import ServingError, invalid_argument

Array = npt.NDArray[Any]
# Sizes, None where free; None where even the rank is free.
Shape = tuple[int | None, ...] | None

# A text is cut by the graph; no model of this project reads longer ones.
LONGEST_ROW_TOKENS = 512
# What all gRPC messages may take while they come, in bytes.
_ARRIVING_BYTES = 2**29
# Of a masked language model: the input that says how many rows of logits there are.
_MASK_POSITIONS = "mask_positions"


@dataclass(frozen=True)
class Limits:
    """What a request, and all requests together, may take.

    The defaults keep a small model (hidden size 256) at 512 tokens under 4 GB.

    Attributes:
        max_request_bytes: largest REST body or gRPC message, in bytes.
        max_bodies_bytes: all REST bodies that are being read or computed, in bytes;
            the same of all gRPC messages.
        max_rows: texts, examples or rows in one request.
        max_tokens: rows times the tokens of the longest, in one request; a text
            counts a token for each byte, at most `LONGEST_ROW_TOKENS`.
        max_tokens_computing: the same, of all that is computed at a time; what does
            not fit waits.
        max_text_bytes: bytes of all strings of one request.
        max_output_values: numbers and strings in the answer to one request.
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
    max_output_values: int = 2**22
    max_pending: int = 256
    max_connections: int = 1024
    read_timeout_s: float = 10.0

    def grpc_pending(self, threads: int) -> int:
        """Returns how many gRPC requests may wait or run.

        gRPC holds what has come of each before anything can be refused.

        Args:
            threads: requests computed at a time.
        """
        room = _ARRIVING_BYTES // self.max_request_bytes
        return max(1, min(self.max_pending, max(threads, room)))

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

    def check_outputs(
        self, inputs: Mapping[str, Array], shapes: Mapping[str, Shape]
    ) -> None:
        """Refuses requests whose answers would be too large.

        Encoders and masked language models answer with many numbers for each token.

        Args:
            inputs: what the request feeds.
            shapes: of the outputs that it asks for: sizes, None where free. The first
                free one is the batch, each other one as long as the longest row.

        Raises:
            ServingError: INVALID_ARGUMENT, naming the limit and its flag.
        """
        rows, widest = _rows_and_width(inputs)
        if _MASK_POSITIONS in inputs:
            widest = _rows_and_width({"": inputs[_MASK_POSITIONS]})[1]
        values = 0
        for shape in shapes.values():
            free = iter((rows,))
            sizes = [next(free, widest) if n is None else n for n in shape or ()]
            values += math.prod(sizes)
        if values > self.max_output_values:
            raise _over(
                "values of the answer",
                values,
                self.max_output_values,
                "--max-output-values",
            )


def work(inputs: Mapping[str, Array]) -> int:
    """Returns rows times the tokens of the longest row, at least 1.

    Args:
        inputs: strings (B,) as object arrays of bytes, numbers of any shape.
    """
    rows, widest = _rows_and_width(inputs)
    return max(rows * min(widest, 2**31), 1)


def _rows_and_width(inputs: Mapping[str, Array]) -> tuple[int, int]:
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
    return rows, widest


def _over(what: str, received: int, limit: int, flag: str) -> ServingError:
    return invalid_argument(f"{what}: at most {limit} ({flag}). Received: {received}")
