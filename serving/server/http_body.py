"""Reads the body of an HTTP request within limits of size, sum and time."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from serving.server.json_responses import error_response
from serving.server.limits import Limits
from serving.server.loop_clock import LoopClock
from serving.server.rest import JSON_TYPE, Response
from serving.server.status import Code, ServingError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

# How long a refused body is read on, so that its sender sees the answer, in seconds.
_DISCARD_S = 2.0


@dataclass
class InFlight:
    """Bytes of all bodies that are held at this moment."""

    size: int = 0


class Body:
    """One request's body.

    Args:
        limits: sizes and times.
        total: what all bodies hold; `read` adds to it, the caller takes `size` off.
        clock: counts the time of the loop that reads.
    """

    def __init__(self, limits: Limits, total: InFlight, clock: LoopClock) -> None:
        self._limits = limits
        self._clock = clock
        self._total = total
        self.parts: list[bytes] = []
        self.size = 0
        self.refused = False

    async def read(
        self, scope: MutableMapping[str, Any], receive: Receive
    ) -> Response | None:
        """Reads the body into `parts`; returns the answer where it is refused."""
        declared = header(scope, b"content-length")
        limit = self._limits.max_request_bytes
        if declared.isdigit() and int(declared) > limit:
            return self._too_large(int(declared))
        try:
            async with self._clock.timeout(self._limits.read_timeout_s):
                return await self._read(receive)
        except TimeoutError:
            self._drop()
            text = (
                "The request did not arrive within "
                f"{self._limits.read_timeout_s:g} s (--read-timeout-ms)"
            )
            return Response(408, JSON_TYPE, error_response(text))

    async def discard(self, receive: Receive) -> None:
        """Reads and forgets what still comes, for a short while."""
        try:
            async with asyncio.timeout(_DISCARD_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            return

    async def _read(self, receive: Receive) -> Response | None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._drop()
                return _failure(Code.CANCELLED, "The client has gone")
            part = message.get("body", b"")
            self.size += len(part)
            self._total.size += len(part)
            self.parts.append(part)
            if self.size > self._limits.max_request_bytes:
                return self._too_large(self.size)
            if self._total.size > self._limits.max_bodies_bytes:
                self._drop()
                return _failure(
                    Code.UNAVAILABLE,
                    "The bodies of all requests exceed "
                    f"{self._limits.max_bodies_bytes} bytes (--max-bodies-mb)",
                )
            if not message.get("more_body", False):
                return None

    def _too_large(self, size: int) -> Response:
        self._drop()
        text = (
            f"The body has {size} bytes; at most {self._limits.max_request_bytes} are "
            "read (--max-request-mb)"
        )
        return Response(413, JSON_TYPE, error_response(text))

    def _drop(self) -> None:
        self.refused = True
        self._total.size -= self.size
        self.size = 0
        self.parts.clear()


def header(scope: MutableMapping[str, Any], name: bytes) -> str:
    """Returns a request header, or an empty string."""
    values = (value for key, value in scope["headers"] if key == name)
    return str(next(values, b"").decode("latin-1"))


def _failure(code: Code, message: str) -> Response:
    error = ServingError(code, message)
    return Response(error.http_status, JSON_TYPE, error_response(message))
