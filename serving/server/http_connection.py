"""An HTTP connection that cannot be held open for nothing.

uvicorn times idle connections between two requests, but neither one that never asks,
nor one whose request line and headers trickle in, nor one that does not take its
answer; and it takes any number of them.
"""

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.server.loop_clock import LoopClock, Timer

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nretry-after: 1\r\nconnection: close\r\n\r\n%s"
)
_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)


def timed_connection(
    clock: LoopClock, timeout_s: float, max_connections: int
) -> type[H11Protocol]:
    """Returns the class of connections that uvicorn is to open.

    Args:
        clock: counts the time of the loop that reads.
        timeout_s: within so many seconds of its first byte, or of the connection for
            the first request, the head of a request must have arrived; and for so
            long a client may take nothing of an answer that waits for it.
        max_connections: connections that may be open at a time; more are told 503.
    """

    class TimedConnection(H11Protocol):
        _deadline: Timer | None = None
        _unread: Timer | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # To be told of all that a client does not take. With 0 as the higher limit
            # a transport with TLS would never go on.
            transport.set_write_buffer_limits(high=1, low=0)
            if len(self.connections) > max_connections:
                text = (
                    b'{"error": "The server is busy: %d connections are open '
                    b'(--max-connections)"}' % max_connections
                )
                transport.write(_BUSY % (len(text), text))
                transport.close()
                return
            self._await_head()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._between_requests():
                # Bytes came, but no whole head: the keep-alive timer is off by now.
                if self._deadline is None:
                    self._await_head()
            else:
                self._head_arrived()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_arrived()
            self._taken()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch_writing()

        def resume_writing(self) -> None:
            self._taken()
            super().resume_writing()

        def _watch_writing(self) -> None:
            size = self.transport.get_write_buffer_size()

            def look() -> None:
                if self.transport.get_write_buffer_size() < size:
                    self._watch_writing()
                else:
                    self._unread = None
                    self.transport.abort()

            self._unread = Timer(clock, timeout_s, look)

        def _taken(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _between_requests(self) -> bool:
            return self.conn.their_state is h11.IDLE

        def _await_head(self) -> None:
            self._deadline = Timer(clock, timeout_s, self._too_late)

        def _head_arrived(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_late(self) -> None:
            self._deadline = None
            if self.transport.is_closing() or not self._between_requests():
                return
            text = (
                b'{"error": "The head of the request did not arrive within %g s '
                b'(--read-timeout-ms)"}' % timeout_s
            )
            if self.conn.our_state is h11.IDLE:
                self.transport.write(_LATE % (len(text), text))
            self.transport.close()

    return TimedConnection
