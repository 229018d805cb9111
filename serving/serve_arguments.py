"""The options of ``python -m serving serve``."""

import argparse
from pathlib import Path

from common.arguments import at_least, not_negative, number_from, port
from common.command_line import UsageError
from serving.server.batching_config import DEFAULT_METRICS_PATH

# Flag, default, meaning. A refused request names the flag.
_LIMITS = (
    ("max_request_mb", 8, "largest REST body or gRPC message, in MiB"),
    ("max_bodies_mb", 32, "all REST bodies, or gRPC messages, held at a time, in MiB"),
    ("max_rows", 1024, "texts, examples or rows in a request"),
    ("max_tokens", 65536, "rows times tokens of the longest, in a request"),
    ("max_tokens_computing", 65536, "the same, of all computed at a time"),
    ("max_text_kb", 8192, "bytes of all texts in a request, in KiB"),
    ("max_output_values", 4194304, "numbers and strings in an answer"),
    ("max_pending", 256, "requests that wait or run, for REST and gRPC each"),
    ("max_connections", 1024, "REST connections open at a time"),
    (
        "read_timeout_ms",
        10000,
        "time for a REST request's head, and for its body",
    ),
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
        "--rest-port", type=port, default=8501, help="REST port (0: any; default 8501)"
    )
    parser.add_argument(
        "--grpc-port", type=port, default=8500, help="gRPC port (0: any; default 8500)"
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
        type=number_from(0.05),
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
        type=at_least(1),
        default=30000,
        help="a REST request may take so long (default 30000)",
    )
    _add_limits(parser)
    _add_tls(parser)
    parser.add_argument(
        "--demo", action="store_true", help="a page to try the models, at /"
    )
    parser.add_argument(
        "--access-log",
        metavar="FILE",
        help="add a line of JSON for each request to FILE (-: standard error)",
    )
    parser.add_argument(
        "--access-log-text",
        action="store_true",
        help="also write what users sent, and errors that quote it, to that log",
    )
    parser.add_argument(
        "--threads",
        type=at_least(0),
        default=0,
        help="requests computed at a time, for REST and gRPC each (default: by cores)",
    )
    parser.add_argument(
        "--tensorflow-inter-op-parallelism",
        type=at_least(0),
        default=0,
        help="operations run at a time (default: by cores)",
    )
    parser.add_argument(
        "--tensorflow-intra-op-parallelism",
        type=at_least(0),
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
        type=not_negative,
        default=10.0,
        help="how long running requests may take when stopping (default 10)",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    for name, default, text in _LIMITS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=at_least(1),
            default=default,
            metavar="N",
            help=f"{text} (default {default})",
        )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    for name, text in (
        ("certificate", "the server's certificate chain: REST and gRPC speak TLS"),
        ("key", "the private key of --tls-certificate, without a password"),
        ("client-ca", "only answer clients with a certificate that this one signed"),
    ):
        parser.add_argument(
            f"--tls-{name}", type=Path, metavar="FILE", help=f"PEM: {text}"
        )


def check_arguments(arguments: argparse.Namespace) -> None:
    """Refuses values that make no sense together.

    Raises:
        UsageError: naming the flags, and what was expected and received.
    """
    if arguments.rest_port and arguments.rest_port == arguments.grpc_port:
        raise UsageError(
            "--rest-port and --grpc-port: expected two ports. "
            f"Received: {arguments.rest_port} for both"
        )
    if arguments.poll_config and not arguments.config:
        raise UsageError("--poll-config: only with --config")
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key: expected both or neither")
    if arguments.tls_client_ca and not arguments.tls_certificate:
        raise UsageError("--tls-client-ca: only with --tls-certificate and --tls-key")
    if arguments.access_log_text and not arguments.access_log:
        raise UsageError("--access-log-text: only with --access-log")
