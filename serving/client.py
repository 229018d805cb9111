"""A client for the TensorFlow Serving API that needs neither TensorFlow nor Keras.

It works with the embedded server and with the stock one. `connect` picks REST or gRPC
by the URL: `serving.rest_client.RestClient` or `serving.grpc_client.GrpcClient`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from serving.rest_client import RestClient
from serving.retry import ClientError, Retry, batches

__all__ = ["Client", "ClientError", "RestClient", "Retry", "batches", "connect"]


class Client(Protocol):
    """What REST and gRPC clients have in common."""

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance, in order."""

    def close(self) -> None:
        """Closes the connections."""


def connect(url: str, model: str, **options: Any) -> Client:
    """Returns a client for a model.

    Args:
        url: ``http://host:port`` or ``https://...`` for REST, ``grpc://host:port``
            for gRPC.
        model: the model's name.
        **options: those of `RestClient` and `GrpcClient`.

    Raises:
        ValueError: if the URL is of another kind.
    """
    if url.startswith("grpc://"):
        from serving.grpc_client import GrpcClient

        return GrpcClient(url.removeprefix("grpc://").rstrip("/"), model, **options)
    return RestClient(url, model, **options)
