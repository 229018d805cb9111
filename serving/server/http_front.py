"""The HTTP side: uvicorn on a thread of its own, requests on a pool of threads.

uvicorn because it is well kept, in pure Python, parses requests strictly, keeps
connections alive, sets TCP_NODELAY, and stops gracefully; the standard library's
`http.server` does none of the last three. The API needs no framework on top.
"""

import asyncio
import concurrent.futures
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from serving.server.json_responses import error_response
from serving.server.rest import JSON_TYPE, Response, RestApi
from serving.server.status import Code, ServingError

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HttpFront:
    """Serves a `RestApi` on a socket.

    Args:
        api: answers the requests.
        threads: requests computed at a time.
        max_pending: requests that may be in the server at a time; beyond that they
            are refused as UNAVAILABLE at once.
        max_body_bytes: the largest body that is read.
        timeout_s: after so many seconds a request is answered DEADLINE_EXCEEDED.
    """

    def __init__(
        self,
        api: RestApi,
        threads: int,
        max_pending: int,
        max_body_bytes: int,
        timeout_s: float,
    ) -> None:
        self._api = api
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, "rest")
        self._pending = 0
        self._max_pending = max_pending
        self._max_body_bytes = max_body_bytes
        self._timeout_s = timeout_s
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, bound: socket.socket) -> None:
        """Begins to accept connections.

        Args:
            bound: a TCP socket that is bound but does not listen yet. It is closed by
                `stop`.
        """
        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            # Long enough that a client's next request after a pause does not meet a
            # connection that is just being closed.
            timeout_keep_alive=75,
        )
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=server.run, args=([bound],), name="http", daemon=True
        )
        self._thread.start()
        while not server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the HTTP server did not start; see the log")
            time.sleep(0.005)

    def stop(self, grace_s: float) -> None:
        """Stops accepting, waits for running requests at most `grace_s` seconds."""
        if self._server is None or self._thread is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await self._body(receive)
        if isinstance(body, Response):
            response = body
        elif self._pending >= self._max_pending:
            response = _failure(
                Code.UNAVAILABLE, f"The server is busy: {self._pending} requests wait"
            )
        else:
            self._pending += 1
            try:
                response = await self._compute(scope, body)
            finally:
                self._pending -= 1
        await send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": [
                    (b"content-type", response.content_type.encode()),
                    (b"content-length", str(len(response.body)).encode()),
                ],
            }
        )
        await send({"type": "http.response.body", "body": response.body})

    async def _compute(self, scope: Scope, body: bytes) -> Response:
        target = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        encoding = next(
            (value for name, value in scope["headers"] if name == b"content-encoding"),
            b"",
        ).decode("latin-1")
        answer = asyncio.get_running_loop().run_in_executor(
            self._pool, self._api.handle, scope["method"], target, body, encoding
        )
        try:
            return await asyncio.wait_for(answer, self._timeout_s)
        except TimeoutError:
            return _failure(
                Code.DEADLINE_EXCEEDED, f"Timed out after {self._timeout_s:g} s"
            )

    async def _body(self, receive: Receive) -> bytes | Response:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return _failure(Code.CANCELLED, "The client has gone")
            size += len(message.get("body", b""))
            if size <= self._max_body_bytes:
                parts.append(message.get("body", b""))
            else:
                parts.clear()  # read on, so that the client sees the answer
            if not message.get("more_body", False):
                break
        if size > self._max_body_bytes:
            text = f"The body has {size} bytes; at most {self._max_body_bytes} are read"
            return Response(413, JSON_TYPE, error_response(text))
        return b"".join(parts)


def _failure(code: Code, message: str) -> Response:
    error = ServingError(code, message)
    return Response(error.http_status, JSON_TYPE, error_response(message))
