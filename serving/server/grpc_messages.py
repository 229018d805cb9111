"""Reads gRPC messages so that a damaged one is the client's error, not the server's."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError


class _Damaged:
    """Stands for a message that could not be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Lenient(grpc.ServerInterceptor):
    """Answers undecodable messages with INVALID_ARGUMENT.

    gRPC itself logs a traceback for each and answers INTERNAL.
    """

    def intercept_service(
        self,
        continuation: Callable[[Any], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wraps the handler of a unary method; streams stay as they are."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler

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

        return grpc.unary_unary_rpc_method_handler(
            answer, read, handler.response_serializer
        )
