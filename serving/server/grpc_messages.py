"""What every gRPC request passes: damaged messages, and the access log."""

import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from serving.server.access_log import AccessLog


class _Damaged:
    """Stands for a message that could not be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def ByteSize(self) -> int:  # noqa: N802  as messages have it
        """Returns 0: what it would have been is not known."""
        return 0


class Lenient(grpc.ServerInterceptor):
    """Answers undecodable messages with INVALID_ARGUMENT, and logs each request.

    gRPC itself logs a traceback for each and answers INTERNAL.

    Args:
        access_log: takes a line for each request.
    """

    def __init__(self, access_log: AccessLog | None = None) -> None:
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

        def read(data: bytes) -> Any:
            try:
                return handler.request_deserializer(data)
            except (DecodeError, UnicodeDecodeError) as error:
                return _Damaged(error)

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            if isinstance(request, _Damaged):
                context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"The message cannot be read: {request.error}",
                )
            return handler.unary_unary(request, context)

        def logged(request: Any, context: grpc.ServicerContext) -> Any:
            started = time.perf_counter()
            response = None
            try:
                response = answer(request, context)
            finally:
                self._write(method, request, response, context, started)
            return response

        return grpc.unary_unary_rpc_method_handler(
            answer if self._access_log is None else logged,
            read,
            handler.response_serializer,
        )

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
