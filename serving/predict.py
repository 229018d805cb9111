"""``python -m serving predict``: asks a running server."""

import argparse
import sys
from typing import Any

from common.arguments import at_least, positive
from common.command_line import CommandError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``predict``."""
    add_target_arguments(parser)
    parser.add_argument("--version", type=at_least(0), help="the model's version")
    parser.add_argument("--label", help="a version's label, instead of its number")
    parser.add_argument(
        "--max-batch",
        type=at_least(1),
        default=32,
        help="texts in a request (default 32)",
    )
    parser.add_argument(
        "--tries",
        type=at_least(1),
        default=6,
        help="tries for each request (default 6)",
    )
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="each TEXT is two texts with a tab between: inputs text and text_pair",
    )
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="the texts; without any: the lines of standard input",
    )


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which server and model to ask."""
    parser.add_argument(
        "--url",
        required=True,
        help="the server: http://host:8501 (REST) or grpc://host:8500 (gRPC)",
    )
    parser.add_argument("--model", required=True, metavar="NAME", help="the model")
    parser.add_argument("--signature", help="the signature (default serving_default)")
    parser.add_argument(
        "--timeout",
        type=positive,
        default=30.0,
        help="seconds for a request with all its tries (default 30)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns ``predictions``, one for each text, in order."""
    texts = arguments.texts
    if not texts:
        if sys.stdin.isatty():
            raise UsageError("TEXT: expected texts, or lines on standard input")
        texts = [line.rstrip("\r\n") for line in sys.stdin]
    instances = [_pair(text) for text in texts] if arguments.pairs else texts
    from serving.client import ClientError, Retry, connect

    try:
        client = connect(
            arguments.url,
            arguments.model,
            version=arguments.version,
            label=arguments.label,
            signature=arguments.signature,
            max_batch=arguments.max_batch,
            retry=Retry(tries=arguments.tries),
            timeout_s=arguments.timeout,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        return {"predictions": client.predict(instances)}
    except ClientError as error:
        raise CommandError(str(error)) from error
    finally:
        client.close()


def _pair(text: str) -> dict[str, str]:
    first, tab, second = text.partition("\t")
    if not tab:
        raise UsageError(
            f"--pairs: expected two texts with a tab between. Received: {text[:80]!r}"
        )
    return {"text": first, "text_pair": second}
