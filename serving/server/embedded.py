"""The whole server in one object, to be started and stopped."""

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from common.command_line import CommandError, UsageError
from serving.server.access_log import AccessLog
from serving.server.batching import BatchScheduler
from serving.server.batching_config import DEFAULT_METRICS_PATH, BatchingConfig
from serving.server.demo import Demo
from serving.server.gate import Gate
from serving.server.grpc_front import GrpcFront
from serving.server.http_front import HttpFront
from serving.server.inference import Inference
from serving.server.limits import Limits
from serving.server.memory import limit_arenas, trim
from serving.server.metrics import Metrics
from serving.server.model_config import ModelConfig
from serving.server.repository import ModelRepository
from serving.server.rest import RestApi
from serving.server.servable import Servable
from serving.server.status import ServingError
from serving.server.tls import Tls
from serving.server.versions import check_startable
from serving.server.warm_up import warm_up

# Freed memory is given back to the system so often at most, in s.
_TRIM_S = 5.0

Refresh = Callable[[], Sequence[ModelConfig] | None]


@dataclass(frozen=True)
class ServerOptions:
    """How a server runs.

    Attributes:
        host: address to listen on.
        rest_port: port of the REST API; 0: any free one.
        grpc_port: port of the gRPC API; 0: any free one.
        batching: puts concurrent requests together; None: off.
        metrics_path: where the metrics are on the REST port; None: nowhere.
        poll_interval_s: seconds between two looks for new versions.
        rest_timeout_s: after so many seconds a REST request is given up.
        limits: what a request, and all together, may cost.
        threads: requests computed at a time, for REST and gRPC each; 0: 4 for each
            core and at least 16, with batching enough to fill two batches.
        inter_op_threads: TensorFlow operations run at a time; 0: one for each core.
        intra_op_threads: threads for one operation; 0: one for each core.
        allow_reload_config: whether gRPC callers may replace the configuration.
        tls: certificate and key, for REST and gRPC; None: in the clear.
        access_log: file that takes a line of JSON for each request; ``-``: standard
            error; None: nothing.
        demo: whether a page to try the models is at ``/``.
        access_log_text: whether those lines hold what users wrote.
    """

    host: str = "127.0.0.1"
    rest_port: int = 8501
    grpc_port: int = 8500
    batching: BatchingConfig | None = None
    metrics_path: str | None = DEFAULT_METRICS_PATH
    poll_interval_s: float = 1.0
    rest_timeout_s: float = 30.0
    limits: Limits = field(default_factory=Limits)
    threads: int = 0
    inter_op_threads: int = 0
    intra_op_threads: int = 0
    allow_reload_config: bool = False
    tls: Tls | None = None
    access_log: str | None = None
    access_log_text: bool = False
    demo: bool = False

    def request_threads(self) -> int:
        """Returns the number of threads that compute requests."""
        if self.threads:
            return self.threads
        threads = max(16, 4 * (os.cpu_count() or 1))
        if self.batching is not None:
            # A thread waits for each request in a batch, and costs next to nothing.
            threads = max(threads, min(2 * self.batching.execution_batch_size, 256))
        return threads


class EmbeddedServer:
    """A server for the TensorFlow Serving API.

    Use it as a context manager, or call `start` and `stop`.

    Args:
        models: what to serve.
        options: how.
        refresh: called at each look for new versions; returns the new models where
            the configuration has changed, else None.
    """

    def __init__(
        self,
        models: Sequence[ModelConfig],
        options: ServerOptions = ServerOptions(),
        refresh: Refresh = lambda: None,
    ) -> None:
        self._models = list(models)
        self._options = options
        self._refresh = refresh
        self._refused: Sequence[ModelConfig] | None = None
        self._next_trim_s = 0.0
        self._trimmed_at = 0
        self.metrics = Metrics()
        self.repository = ModelRepository(self._models, self._load)
        limits = options.limits
        self._gate = Gate(limits.max_tokens_computing, options.rest_timeout_s)
        scheduler = None
        if options.batching:
            scheduler = BatchScheduler(options.batching, limits.max_tokens_computing)
        self._scheduler = scheduler
        inference = Inference(self.repository, scheduler, limits)
        threads = options.request_threads()
        self._access_log = _open_access_log(options)
        self._http = HttpFront(
            RestApi(
                inference,
                self.metrics,
                options.metrics_path,
                limits.max_request_bytes,
                Demo(inference) if options.demo else None,
            ),
            threads,
            limits,
            options.rest_timeout_s,
            options.tls,
            self._access_log,
        )
        self._grpc = GrpcFront(
            inference,
            self.metrics,
            threads,
            self._reconfigure if options.allow_reload_config else None,
            options.tls,
            self._access_log,
        )
        self._rest_port = self._grpc_port = 0

    @property
    def rest_url(self) -> str:
        """Where the REST API is, as ``http://host:port`` or ``https://...``."""
        scheme = "http" if self._options.tls is None else "https"
        return f"{scheme}://{_address(self._options.host, self._rest_port)}"

    @property
    def grpc_address(self) -> str:
        """Where the gRPC API is, as ``host:port``."""
        return _address(self._options.host, self._grpc_port)

    def start(self) -> None:
        """Loads all models, then opens both ports.

        Raises:
            UsageError: if a model has no version to serve or a port is taken.
            CommandError: if a model cannot be loaded.
        """
        limit_arenas()
        for model in self._models:
            check_startable(model)
        rest_socket = bind(self._options.host, self._options.rest_port, "--rest-port")
        try:
            if self._options.grpc_port:
                # A look before the models are loaded; gRPC itself binds after.
                bind(self._options.host, self._options.grpc_port, "--grpc-port").close()
            self.repository.start(self._options.poll_interval_s, self._look)
            self._grpc_port = self._grpc.start(
                _address(self._options.host, self._options.grpc_port)
            )
        except ServingError as error:
            rest_socket.close()
            raise CommandError(f"{error.code.name}: {error}") from error
        except BaseException:
            rest_socket.close()
            raise
        self._rest_port = rest_socket.getsockname()[1]
        self._http.start(rest_socket)

    def stop(self, grace_s: float = 10.0) -> None:
        """Stops accepting, finishes running requests, and frees the models.

        Args:
            grace_s: how long running requests may take, in seconds.
        """
        self._http.stop(grace_s)
        self._grpc.stop(grace_s)
        if self._scheduler is not None:
            self._scheduler.close()
        self.repository.close(grace_s)
        if self._access_log is not None:
            self._access_log.close()

    def __enter__(self) -> Self:
        """Starts the server."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops the server."""
        self.stop()

    def _load(self, name: str, path: Path) -> Servable:
        servable = Servable(
            path,
            self._options.inter_op_threads,
            self._options.intra_op_threads,
            self._gate,
        )
        try:
            warm_up(servable, self._options.limits)
        except BaseException:
            servable.close()
            raise
        return servable

    def _look(self) -> Sequence[ModelConfig] | None:
        self._trim()
        models = self._refresh()
        if models is not None:
            self._refused = models
        if self._refused is None:
            return None
        # A configuration whose versions are not there yet stays due at each look.
        for model in self._refused:
            check_startable(model)
        models, self._refused = self._refused, None
        return models

    def _trim(self) -> None:
        """Gives back what requests have freed, every few seconds that bring some."""
        answered, _ = self.metrics.totals()
        if answered != self._trimmed_at and time.monotonic() >= self._next_trim_s:
            trim()
            self._trimmed_at = answered
            self._next_trim_s = time.monotonic() + _TRIM_S

    def _reconfigure(self, models: list[ModelConfig]) -> None:
        for model in models:
            check_startable(model)
        self.repository.reconfigure(models)


def _open_access_log(options: ServerOptions) -> AccessLog | None:
    if options.access_log is None:
        return None
    try:
        return AccessLog(options.access_log, options.access_log_text)
    except OSError as error:
        raise UsageError(
            f"--access-log: {options.access_log}: expected a file that can be "
            f"written: {error.strerror}"
        ) from None


def bind(host: str, port: int, flag: str) -> socket.socket:
    """Returns a TCP socket that is bound to an address and does not listen yet.

    Args:
        host: an IPv4 or IPv6 address or a name.
        port: the port; 0: any free one.
        flag: the option that named the port, for the error.

    Raises:
        UsageError: if the address is taken or not one of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"--host: {host}: {error}") from None
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UsageError(
            f"{flag}: cannot listen on {host} port {port}: {error.strerror}"
        ) from None
    return bound


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
