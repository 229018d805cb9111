"""Clients for the TensorFlow Serving API that need neither TensorFlow nor Keras.

They work with the embedded server and with the stock one. `connect` and
`connect_async` pick REST or gRPC by the URL. This folder is a package of its own: it
works where it is copied, under any name, and installs as `lvbert-client`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from .options import ClientOptions, Json
from .retry import ClientError, Retry, batches

__version__ = "1.0.0"

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "ClientOptions",
    "RestClient",
    "Retry",
    "batches",
    "connect",
    "connect_async",
]


class Client(Protocol):
    """What REST and gRPC clients have in common."""

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance, in order."""

    def classify(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns for each example a list of ``[label, score]``."""

    def status(self) -> list[Json]:
        """Returns the state of the model's versions, the newest first."""

    def metadata(self) -> Json:
        """Returns the signatures."""

    def close(self) -> None:
        """Closes the connections."""

    def __enter__(self) -> Self:
        """Returns the client itself."""

    def __exit__(self, *arguments: Any) -> None:
        """Closes the connections."""


class AsyncClient(Protocol):
    """What asynchronous REST and gRPC clients have in common."""

    async def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance, in order."""

    async def classify(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns for each example a list of ``[label, score]``."""

    async def status(self) -> list[Json]:
        """Returns the state of the model's versions, the newest first."""

    async def metadata(self) -> Json:
        """Returns the signatures."""

    async def close(self) -> None:
        """Closes the connections."""

    async def __aenter__(self) -> Self:
        """Returns the client itself."""

    async def __aexit__(self, *arguments: Any) -> None:
        """Closes the connections."""


def connect(url: str, model: str, **options: Any) -> Client:
    """Returns a client for a model.

    Args:
        url: ``http://host:port`` or ``https://...`` for REST, ``grpc://host:port`` or
            ``grpcs://...`` for gRPC.
        model: the model's name.
        **options: those of `ClientOptions`.

    Raises:
        ValueError: if the URL is of another kind.
    """
    address = _grpc_address(url)
    if address is not None:
        from .grpc_client import GrpcClient

        return GrpcClient(address, model, tls=url.startswith("grpcs"), **options)
    from .rest_client import RestClient

    return RestClient(url, model, **options)


def connect_async(url: str, model: str, **options: Any) -> AsyncClient:
    """Returns a client whose methods are awaited; arguments as those of `connect`."""
    address = _grpc_address(url)
    if address is not None:
        from .async_grpc_client import AsyncGrpcClient

        return AsyncGrpcClient(address, model, tls=url.startswith("grpcs"), **options)
    from .async_rest_client import AsyncRestClient

    return AsyncRestClient(url, model, **options)


def _grpc_address(url: str) -> str | None:
    """Returns ``host:port`` of a gRPC URL, None for another."""
    if not url.startswith(("grpc://", "grpcs://")):
        return None
    return url.split("://", 1)[1].rstrip("/")


def __getattr__(name: str) -> Any:
    """Imports the REST client when it is asked for: gRPC needs no `requests`."""
    if name == "RestClient":
        from .rest_client import RestClient

        return RestClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
