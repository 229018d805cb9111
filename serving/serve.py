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
from serving.server.versions import check_startable

if TYPE_CHECKING:
    from serving.server.embedded import EmbeddedServer


# Flag, default, meaning. A refused request names the flag.
_LIMITS = (
    ("max_request_mb", 8, "largest REST body or gRPC message, in MiB"),
    ("max_bodies_mb", 32, "all REST bodies held at a time, in MiB"),
    ("max_rows", 1024, "texts, examples or rows in a request"),
    ("max_tokens", 65536, "rows times tokens of the longest, in a request"),
    ("max_tokens_computing", 65536, "the same, of all computed at a time"),
    ("max_text_kb", 8192, "bytes of all texts in a request, in KiB"),
    ("max_pending", 256, "requests that wait or run, for REST and gRPC each"),
    ("read_timeout_ms", 10000, "a REST request must arrive within so long"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``serve``."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--model",
        action="append",
        metavar="NAME=BASE",
        help="a model and the folder of its numbered versions; may be repeated",
    )
    what.add_argument(
        "--config", type=Path, metavar="FILE", help="a models.config of TF Serving"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--rest-port", type=int, default=8501, help="REST port (0: any; default 8501)"
    )
    parser.add_argument(
        "--grpc-port", type=int, default=8500, help="gRPC port (0: any; default 8500)"
    )
    parser.add_argument(
        "--batching",
        type=Path,
        metavar="FILE",
        help="a batching.config of TF Serving: compute concurrent requests together",
    )
    parser.add_argument(
        "--monitoring",
        type=Path,
        metavar="FILE",
        help=f"a monitoring.config (default: metrics at {DEFAULT_METRICS_PATH})",
    )
    parser.add_argument(
        "--poll-seconds",
        type=float,
        default=1.0,
        help="time between two looks for new versions, in seconds (default 1)",
    )
    parser.add_argument(
        "--poll-config",
        action="store_true",
        help="also follow changes of the --config file",
    )
    parser.add_argument(
        "--rest-timeout-ms",
        type=int,
        default=30000,
        help="a REST request may take so long (default 30000)",
    )
    _add_limits(parser)
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        help="requests computed at a time, for REST and gRPC each (default: by cores)",
    )
    parser.add_argument(
        "--tensorflow-inter-op-parallelism",
        type=int,
        default=0,
        help="operations run at a time (default: by cores)",
    )
    parser.add_argument(
        "--tensorflow-intra-op-parallelism",
        type=int,
        default=0,
        help="threads for one operation (default: by cores)",
    )
    parser.add_argument(
        "--allow-reload-config",
        action="store_true",
        help="let gRPC callers replace the configuration, so run any graph",
    )
    parser.add_argument(
        "--stop-on-stdin-eof",
        action="store_true",
        help="also stop when standard input ends, so when a parent that holds it dies",
    )
    parser.add_argument(
        "--grace-seconds",
        type=float,
        default=10.0,
        help="how long running requests may take when stopping (default 10)",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    for name, default, text in _LIMITS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            default=default,
            metavar="N",
            help=f"{text} (default {default})",
        )


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
    _check(arguments)
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
                max_pending=arguments.max_pending,
                read_timeout_s=arguments.read_timeout_ms / 1000,
            ),
            threads=arguments.threads,
            inter_op_threads=arguments.tensorflow_inter_op_parallelism,
            intra_op_threads=arguments.tensorflow_intra_op_parallelism,
            allow_reload_config=arguments.allow_reload_config,
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


def _check(arguments: argparse.Namespace) -> None:
    for flag in ("rest_port", "grpc_port"):
        port = getattr(arguments, flag)
        if not 0 <= port <= 65535:
            raise UsageError(
                f"--{flag.replace('_', '-')}: expected a port from 0 to 65535. "
                f"Received: {port}"
            )
    if arguments.rest_port and arguments.rest_port == arguments.grpc_port:
        raise UsageError(
            "--rest-port and --grpc-port: expected two ports. "
            f"Received: {arguments.rest_port} for both"
        )
    for flag, least in (
        ("poll_seconds", 0.05),
        ("rest_timeout_ms", 1),
        *((name, 1) for name, _, _ in _LIMITS),
        ("threads", 0),
        ("tensorflow_inter_op_parallelism", 0),
        ("tensorflow_intra_op_parallelism", 0),
        ("grace_seconds", 0),
    ):
        if not getattr(arguments, flag) >= least:
            raise UsageError(
                f"--{flag.replace('_', '-')}: expected at least {least}. "
                f"Received: {getattr(arguments, flag)}"
            )
    if arguments.poll_config and not arguments.config:
        raise UsageError("--poll-config: only with --config")


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
    seen = path.stat().st_mtime_ns

    def refresh() -> Sequence[ModelConfig] | None:
        nonlocal seen
        changed = path.stat().st_mtime_ns
        if changed == seen:
            return None
        seen = changed
        return read_models_config(path)

    return refresh
