"""The gRPC side: channels, limits, TLS, and which services answer."""

from concurrent import futures

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from serving.server.access_log import AccessLog
from serving.server.grpc_messages import Screen
from serving.server.grpc_services import ModelService, PredictionService, Reload
from serving.server.inference import Inference
from serving.server.metrics import Metrics
from serving.server.tls import Tls

_OPTIONS = [
    # What may come in is limited below; what goes out follows from it.
    ("grpc.max_send_message_length", -1),
    # Else a second server on the same port would silently share its requests.
    ("grpc.so_reuseport", 0),
]
_SERVICES = (
    "",
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
)


class GrpcFront:
    """Serves the gRPC API.

    Args:
        inference: finds and runs models.
        metrics: counts requests.
        threads: requests computed at a time.
        reload: replaces the configuration; None: callers may not.
        tls: certificate and key; None: in the clear.
        access_log: takes a line for each request.
    """

    def __init__(
        self,
        inference: Inference,
        metrics: Metrics,
        threads: int,
        reload: Reload | None,
        tls: Tls | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self._tls = tls
        self._server = grpc.server(
            futures.ThreadPoolExecutor(threads, "grpc"),
            options=[
                *_OPTIONS,
                (
                    "grpc.max_receive_message_length",
                    inference.limits.max_request_bytes,
                ),
            ],
            # More are RESOURCE_EXHAUSTED.
            maximum_concurrent_rpcs=inference.limits.grpc_pending(threads),
            interceptors=[Screen(inference.limits.max_bodies_bytes, access_log)],
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(inference, metrics), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(inference, reload), self._server
        )
        self._health = health.HealthServicer()
        for service in _SERVICES:
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    def start(self, address: str) -> int:
        """Begins to accept connections.

        Args:
            address: ``host:port``; port 0: any free one.

        Returns:
            The port.
        """
        port: int
        if self._tls is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, _credentials(self._tls))
        self._server.start()
        return port

    def stop(self, grace_s: float) -> None:
        """Stops accepting, waits for running requests at most `grace_s` seconds."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait()


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    client_ca = None if tls.client_ca is None else tls.client_ca.read_bytes()
    return grpc.ssl_server_credentials([pair], client_ca, client_ca is not None)
