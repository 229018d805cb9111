"""The HTTP side: uvicorn on a thread of its own, requests on a pool of threads.

uvicorn because it is well kept, in pure Python, parses requests strictly, keeps
connections alive, sets TCP_NODELAY, and stops gracefully; the standard library's
`http.server` does none of the last three. The API needs no framework on top.
"""

import asyncio
import concurrent.futures
import logging
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from serving.server.access_log import AccessLog
from serving.server.http_body import Body as _Body
from serving.server.http_body import InFlight, header
from serving.server.http_connection import timed_connection
from serving.server.json_responses import error_response
from serving.server.limits import Limits
from serving.server.loop_clock import LoopClock
from serving.server.rest import JSON_TYPE, Response, RestApi
from serving.server.status import Code, ServingError
from serving.server.tls import Tls

_log = logging.getLogger(__name__)

# How long idle connections are given to ask once more before they are closed, in s.
_DRAIN_S = 1.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HttpFront:
    """Serves a `RestApi` on a socket.

    Args:
        api: answers the requests.
        threads: requests computed at a time.
        limits: bodies, requests in the server at a time (more are UNAVAILABLE at
            once), and how long a request may take to arrive.
        timeout_s: after so many seconds a request is answered DEADLINE_EXCEEDED.
        tls: certificate and key; None: plain HTTP.
        access_log: takes a line for each request.
    """

    def __init__(
        self,
        api: RestApi,
        threads: int,
        limits: Limits,
        timeout_s: float,
        tls: Tls | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self._tls = tls
        self._access_log = access_log
        self._api = api
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, "rest")
        self._pending = 0
        self._limits = limits
        self._bodies = InFlight()
        self._clock = LoopClock()
        self._draining = False
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
            http=timed_connection(
                self._clock,
                self._limits.read_timeout_s,
                self._limits.max_connections,
            ),
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
            **_tls_options(self._tls),
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
        # Clients that keep connections learn with their next answer that they end.
        self._draining = True
        deadline = time.monotonic() + min(grace_s, _DRAIN_S)
        while time.monotonic() < deadline and self._server.server_state.connections:
            time.sleep(0.01)
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        body = _Body(self._limits, self._bodies, self._clock)
        try:
            response = await self._respond(scope, receive, body)
        finally:
            self._bodies.size -= body.size
        try:
            await self._send(response, body, receive, send)
        finally:
            if self._access_log is not None:
                self._log(self._access_log, scope, body, response, started)

    async def _send(
        self, response: Response, body: _Body, receive: Receive, send: Send
    ) -> None:
        headers = [
            (b"content-type", response.content_type.encode()),
            (b"content-length", str(len(response.body)).encode()),
        ]
        if response.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        if self._draining or body.refused:
            headers.append((b"connection", b"close"))
        start = {"status": response.status, "headers": headers}
        await send({"type": "http.response.start", **start})
        more = {"type": "http.response.body", "body": response.body, "more_body": True}
        if body.refused:
            # Closed at once, the connection would be reset before the answer is read.
            await send(more)
            await body.discard(receive)
            more = {"type": "http.response.body", "body": b""}
        await send({**more, "more_body": False})

    def _log(
        self,
        log: AccessLog,
        scope: Scope,
        body: _Body,
        response: Response,
        started: float,
    ) -> None:
        text = ""
        if log.with_text:
            sent = b"".join(body.parts)[:2000].decode(errors="replace")
            text = sent if response.status < 400 else f"{sent} -> {response.body!r}"
        log.write(
            protocol="REST",
            client=scope["client"][0] if scope["client"] else None,
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            status=response.status,
            bytes_in=body.size,
            bytes_out=len(response.body),
            milliseconds=(time.perf_counter() - started) * 1000,
            text=text,
        )

    async def _respond(self, scope: Scope, receive: Receive, body: _Body) -> Response:
        if self._pending >= self._limits.max_pending:
            body.refused = True
            return _failure(
                Code.UNAVAILABLE,
                f"The server is busy: {self._pending} requests wait (--max-pending)",
            )
        self._pending += 1
        try:
            refusal = await body.read(scope, receive)
            if refusal is not None:
                return refusal
            return await self._compute(scope, b"".join(body.parts))
        finally:
            self._pending -= 1

    async def _compute(self, scope: Scope, body: bytes) -> Response:
        target = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        encoding = header(scope, b"content-encoding")
        origin = header(scope, b"origin")
        answer = asyncio.get_running_loop().run_in_executor(
            self._pool,
            self._api.handle,
            scope["method"],
            target,
            body,
            encoding,
            origin,
        )
        try:
            return await asyncio.wait_for(answer, self._timeout_s)
        except TimeoutError:
            return _failure(
                Code.DEADLINE_EXCEEDED, f"Timed out after {self._timeout_s:g} s"
            )


def _tls_options(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    options: dict[str, Any] = {
        "ssl_certfile": str(tls.certificate),
        "ssl_keyfile": str(tls.key),
    }
    if tls.client_ca is not None:
        options["ssl_ca_certs"] = str(tls.client_ca)
        options["ssl_cert_reqs"] = ssl.CERT_REQUIRED
    return options


def _failure(code: Code, message: str) -> Response:
    error = ServingError(code, message)
    return Response(error.http_status, JSON_TYPE, error_response(message))
