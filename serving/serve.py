"""``python -m serving serve``: runs the embedded server until it is told to stop."""

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from common.command_line import UsageError
from serving.serve_arguments import add_arguments, check_arguments
from serving.server.batching_config import (
    DEFAULT_METRICS_PATH,
    read_batching_config,
    read_monitoring_config,
)
from serving.server.model_config import (
    ModelConfig,
    parse_model_argument,
    read_models_config,
)
from serving.server.tls import Tls, is_loopback
from serving.server.versions import check_startable

if TYPE_CHECKING:
    from serving.server.embedded import EmbeddedServer

__all__ = ["add_arguments", "main"]


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Serves until SIGTERM or SIGINT, or with ``--stop-on-stdin-eof`` that end.

    Prints one JSON line when ready: ``ready``, ``rest`` (a URL), ``grpc``
    (``host:port``), ``models`` (loaded versions by name).

    Returns:
        ``stopped`` (the signal's name, or ``stdin``), ``seconds``, ``requests``,
        ``errors``.
    """
    stop = _StopSignal()
    if arguments.stop_on_stdin_eof:
        stop.watch_standard_input()
    check_arguments(arguments)
    tls = _tls(arguments)
    # All that can be wrong without TensorFlow is found before it is imported.
    batching = read_batching_config(arguments.batching) if arguments.batching else None
    metrics_path: str | None = DEFAULT_METRICS_PATH
    if arguments.monitoring:
        metrics_path = read_monitoring_config(arguments.monitoring)
    models = [parse_model_argument(argument) for argument in arguments.model or ()]
    names = [model.name for model in models]
    if len(set(names)) != len(names):
        raise UsageError(f"--model: a name is given twice: {', '.join(names)}")
    for model in models:
        check_startable(model)
    _set_up_logging(arguments.debug)
    warn_of_exposure(arguments)
    if arguments.config:
        models = read_models_config(arguments.config)

    from serving.server.embedded import EmbeddedServer, ServerOptions
    from serving.server.limits import Limits

    server = EmbeddedServer(
        models,
        ServerOptions(
            host=arguments.host,
            rest_port=arguments.rest_port,
            grpc_port=arguments.grpc_port,
            batching=batching,
            metrics_path=metrics_path,
            poll_interval_s=arguments.poll_seconds,
            rest_timeout_s=arguments.rest_timeout_ms / 1000,
            limits=Limits(
                max_request_bytes=arguments.max_request_mb * 2**20,
                max_bodies_bytes=arguments.max_bodies_mb * 2**20,
                max_rows=arguments.max_rows,
                max_tokens=arguments.max_tokens,
                max_tokens_computing=arguments.max_tokens_computing,
                max_text_bytes=arguments.max_text_kb * 2**10,
                max_output_values=arguments.max_output_values,
                max_pending=arguments.max_pending,
                max_connections=arguments.max_connections,
                read_timeout_s=arguments.read_timeout_ms / 1000,
            ),
            threads=arguments.threads,
            inter_op_threads=arguments.tensorflow_inter_op_parallelism,
            intra_op_threads=arguments.tensorflow_intra_op_parallelism,
            allow_reload_config=arguments.allow_reload_config,
            tls=tls,
            access_log=arguments.access_log,
            access_log_text=arguments.access_log_text,
            demo=arguments.demo,
        ),
        _follow(arguments.config) if arguments.poll_config else (lambda: None),
    )
    server.start()
    started = time.monotonic()
    _announce(server)
    name = stop.wait()
    logging.info("%s: stopping", name)
    server.stop(arguments.grace_seconds)
    requests, errors = server.metrics.totals()
    return {
        "stopped": name,
        "seconds": round(time.monotonic() - started, 3),
        "requests": requests,
        "errors": errors,
    }


class _StopSignal:
    """Waits for a reason to stop; one that comes early is not lost."""

    def __init__(self) -> None:
        self._name = ""
        self._event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def watch_standard_input(self) -> None:
        def watch() -> None:
            with contextlib.suppress(OSError):
                while os.read(0, 4096):  # the descriptor: sys.stdin may be None
                    pass
            self._name = self._name or "stdin"
            self._event.set()

        threading.Thread(target=watch, name="stdin", daemon=True).start()

    def wait(self) -> str:
        self._event.wait()
        return self._name

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._event.is_set():  # the second time: no patience
            os._exit(128 + number)
        self._name = signal.Signals(number).name
        self._event.set()


def warn_of_exposure(arguments: argparse.Namespace) -> None:
    """Warns where others than this machine are answered in the clear."""
    if arguments.tls_certificate is None and not is_loopback(arguments.host):
        logging.warning(
            "--host %s: listening beyond loopback without TLS (--tls-certificate, "
            "--tls-key): whoever sits between can read and change texts and answers. "
            "Nor is anybody asked who they are, unless by --tls-client-ca or a proxy",
            arguments.host,
        )


def _tls(arguments: argparse.Namespace) -> Tls | None:
    if arguments.tls_certificate is None:
        return None
    tls = Tls(arguments.tls_certificate, arguments.tls_key, arguments.tls_client_ca)
    tls.check()
    return tls


def _set_up_logging(debug: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # TensorFlow's own chatter is about its build, not about the models.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def _announce(server: "EmbeddedServer") -> None:
    line = {
        "ready": True,
        "rest": server.rest_url,
        "grpc": server.grpc_address,
        "models": server.repository.available(),
    }
    print(json.dumps(line), flush=True)


def _follow(path: Path) -> Callable[[], Sequence[ModelConfig] | None]:
    """Returns a function that gives a file's models each time the file has changed."""

    def state() -> tuple[int, int, int]:
        try:
            status = path.stat()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error}") from None
        # A file that was renamed to this name may be as old as the one before.
        return status.st_mtime_ns, status.st_ino, status.st_size

    seen = state()

    def refresh() -> Sequence[ModelConfig] | None:
        nonlocal seen
        now = state()
        if now == seen:
            return None
        seen = now
        return read_models_config(path)

    return refresh
