"""What every gRPC request passes: how many bytes there may be, and the access log."""

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from serving.server.access_log import AccessLog


class _InFlight:
    """Bytes of all messages that are held at this moment.

    Args:
        most: bytes that they may have together.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._size = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Adds a message, if there is room; returns whether there was."""
        with self._lock:
            if self._size + size > self.most and self._size:
                return False
            self._size += size
        return True

    def release(self, size: int) -> None:
        """Takes a message off."""
        with self._lock:
            self._size -= size


class _Held:
    """A message, counted until it is forgotten: also where its call was given up.

    Args:
        message: the request.
        size: its bytes.
        in_flight: counts them.
    """

    def __init__(self, message: Any, size: int, in_flight: _InFlight) -> None:
        self.message = message
        self._size = size
        self._in_flight = in_flight

    def __del__(self) -> None:
        """Takes the message off."""
        self._in_flight.release(self._size)


class _Refused:
    """Stands for a message that is not computed."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        self.text = text

    def ByteSize(self) -> int:  # noqa: N802  as messages have it
        """Returns 0: what it would have been is not known."""
        return 0


class Screen(grpc.ServerInterceptor):
    """Answers messages that cannot be read or held, and logs each request.

    For undecodable ones gRPC itself logs a traceback each and answers INTERNAL.

    Args:
        max_bytes: what all messages may take together; more are UNAVAILABLE.
        access_log: takes a line for each request.
    """

    def __init__(self, max_bytes: int, access_log: AccessLog | None = None) -> None:
        self._in_flight = _InFlight(max_bytes)
        self._access_log = access_log

    def intercept_service(
        self,
        continuation: Callable[[Any], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wraps the handler of a unary method; streams stay as they are."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = handler_call_details.method

        def answer(held: Any, context: grpc.ServicerContext) -> Any:
            if isinstance(held, _Refused):
                context.abort(held.code, held.text)
            return handler.unary_unary(held.message, context)

        def logged(held: Any, context: grpc.ServicerContext) -> Any:
            started = time.perf_counter()
            response = None
            try:
                response = answer(held, context)
            finally:
                request = held.message if isinstance(held, _Held) else held
                self._write(method, request, response, context, started)
            return response

        return grpc.unary_unary_rpc_method_handler(
            answer if self._access_log is None else logged,
            lambda data: self._read(data, handler.request_deserializer),
            handler.response_serializer,
        )

    def _read(self, data: bytes, decode: Callable[[bytes], Any]) -> Any:
        size = len(data)
        if not self._in_flight.take(size):
            return _Refused(
                grpc.StatusCode.UNAVAILABLE,
                f"All messages exceed {self._in_flight.most} bytes (--max-bodies-mb)",
            )
        held = _Held(None, size, self._in_flight)
        try:
            held.message = decode(data)
        except (DecodeError, UnicodeDecodeError) as error:
            return _Refused(
                grpc.StatusCode.INVALID_ARGUMENT, f"The message cannot be read: {error}"
            )
        return held

    def _write(
        self,
        method: str,
        request: Any,
        response: Any,
        context: Any,
        started: float,
    ) -> None:
        if self._access_log is None:
            return
        code = context.code()
        fields: dict[str, Any] = {}
        if hasattr(request, "model_spec"):
            fields = {
                "model": request.model_spec.name,
                "signature": request.model_spec.signature_name,
            }
        self._access_log.write(
            protocol="gRPC",
            client=context.peer(),
            path=method,
            **fields,
            # No code is set where nothing went wrong.
            status="OK" if code is None else code.name,
            bytes_in=request.ByteSize(),
            bytes_out=0 if response is None else response.ByteSize(),
            milliseconds=(time.perf_counter() - started) * 1000,
            text=str(request) if self._access_log.with_text else "",
        )
