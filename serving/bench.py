"""``python -m serving bench``: measures a running server from outside."""

import argparse
import http.client
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from common.arguments import at_least, not_negative, number_from
from common.command_line import CommandError, UsageError
from serving.latency_figure import PERCENTILES, draw, percentile
from serving.predict import add_target_arguments

# A request: returns nothing, or raises where it was not answered as it should be.
Send = Callable[[bytes], None]

TEXTS = (
    "A quiet little film that stays with you.",
    "I walked out after half an hour, and so did most of the audience.",
    "The plot is thin, the jokes are older than the actors, and the camera never "
    "stops shaking; still, there is one scene near the end, in the rain, that is "
    "worth the price of the ticket.",
    "Two hours that felt like twenty minutes. The leads are wonderful together, the "
    "music is exactly right, and for once nobody explains what we have just seen. "
    "Take someone you like and sit near the front.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``bench``."""
    add_target_arguments(parser)
    parser.add_argument(
        "--concurrency",
        type=at_least(1),
        default=1,
        help="requests at a time (default 1)",
    )
    parser.add_argument(
        "--seconds",
        type=number_from(0.1),
        default=10.0,
        help="how long to measure (default 10)",
    )
    parser.add_argument(
        "--warm-up-seconds",
        type=not_negative,
        default=1.0,
        help="how long to send before measuring (default 1)",
    )
    parser.add_argument(
        "--batch", type=at_least(1), default=1, help="texts in a request (default 1)"
    )
    parser.add_argument(
        "--texts", type=Path, metavar="FILE", help="texts to send, one a line"
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the latencies (PNG, SVG, PDF)"
    )


@dataclass
class _Tally:
    """What one thread has seen since measuring began."""

    latencies_ms: list[float] = field(default_factory=list)
    errors: int = 0
    first_error: str = ""


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sends requests as fast as they are answered, and reports rate and latency.

    Returns:
        ``requests_per_second`` and ``texts_per_second`` (answered well),
        ``latency_ms`` (``p50``, ``p90``, ``p95``, ``p99``, ``mean``, ``max``),
        ``errors``, ``first_error``, and what was asked for.
    """
    if arguments.figure and not arguments.figure.parent.is_dir():
        raise UsageError(f"--figure: {arguments.figure}: expected a folder that exists")
    texts = _texts(arguments.texts)
    body, connect = _protocol(arguments)
    count = max(len(texts), 1)
    bodies = [
        body([texts[(start + n) % count] for n in range(arguments.batch)])
        for start in range(0, count * arguments.batch, arguments.batch)
    ]
    tallies, seconds = _measure(arguments, bodies, connect)
    latencies = sorted(itertools.chain(*(tally.latencies_ms for tally in tallies)))
    errors = sum(tally.errors for tally in tallies)
    first_error = next((t.first_error for t in tallies if t.first_error), "")
    if not latencies:
        raise CommandError(
            f"{arguments.url}: no request was answered; {errors} failed, the first "
            f"with: {first_error or 'no answer in time'}"
        )
    if arguments.figure:
        title = f"{arguments.model}, {arguments.concurrency} at a time"
        draw(latencies, errors, title, arguments.figure)
    rate = len(latencies) / seconds
    return {
        "requests_per_second": round(rate, 2),
        "texts_per_second": round(rate * arguments.batch, 2),
        "latency_ms": {
            **{f"p{p}": round(percentile(latencies, p), 3) for p in PERCENTILES},
            "mean": round(sum(latencies) / len(latencies), 3),
            "max": round(latencies[-1], 3),
        },
        "errors": errors,
        "first_error": first_error,
        "requests": len(latencies),
        "seconds": round(seconds, 3),
        "concurrency": arguments.concurrency,
        "batch": arguments.batch,
    }


def _texts(path: Path | None) -> list[str]:
    if path is None:
        return list(TEXTS)
    try:
        texts = [line for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--texts: {path}: {error}") from None
    if not texts:
        raise UsageError(f"--texts: {path}: expected at least one line with a text")
    return texts


def _measure(
    arguments: argparse.Namespace,
    bodies: list[bytes],
    connect: Callable[[], tuple[Send, Callable[[], None]]],
) -> tuple[list[_Tally], float]:
    """Runs the threads; returns what each saw, and the seconds measured."""
    tallies = [_Tally() for _ in range(arguments.concurrency)]
    measuring, stopping = threading.Event(), threading.Event()

    def work(tally: _Tally, requests: Iterator[bytes]) -> None:
        send, close = connect()
        for request in requests:
            if stopping.is_set():
                break
            counted = measuring.is_set()
            started = time.perf_counter()
            try:
                send(request)
            except Exception as error:
                # Whatever goes wrong with a request is a finding of the benchmark.
                if counted:
                    tally.errors += 1
                    tally.first_error = tally.first_error or str(error)
                time.sleep(0.01)  # an error that comes at once must not spin
            else:
                # An answer that comes after the end is not part of the rate.
                if counted and not stopping.is_set():
                    elapsed = time.perf_counter() - started
                    tally.latencies_ms.append(elapsed * 1000)
        close()

    threads = [
        threading.Thread(
            target=work,
            args=(tally, itertools.cycle(bodies[index % len(bodies) :] + bodies)),
            daemon=True,
        )
        for index, tally in enumerate(tallies)
    ]
    for thread in threads:
        thread.start()
    time.sleep(arguments.warm_up_seconds)
    measuring.set()
    started = time.perf_counter()
    _wait(arguments.seconds, tallies, started)
    stopping.set()
    seconds = time.perf_counter() - started
    for thread in threads:
        thread.join(arguments.timeout)
    return tallies, seconds


def _wait(seconds: float, tallies: list[_Tally], started: float) -> None:
    """Waits, and tells a person at a terminal how it goes."""
    while (left := started + seconds - time.perf_counter()) > 0:
        time.sleep(min(left, 0.5))
        if sys.stderr.isatty():
            done = sum(len(tally.latencies_ms) for tally in tallies)
            rate = done / (time.perf_counter() - started)
            text = f"\r{rate:8.0f} requests/s, {max(left, 0):5.1f} s left "
            print(text, end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _protocol(
    arguments: argparse.Namespace,
) -> tuple[Callable[[list[str]], bytes], Callable[[], tuple[Send, Callable[[], None]]]]:
    """Returns how to write a request, and how to open a connection to send it."""
    address = urlsplit(arguments.url)
    if address.scheme == "grpc" and address.netloc:
        return _grpc(arguments, address.netloc)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise UsageError(
            "--url: expected http://host:port, https://host:port or grpc://host:port. "
            f"Received: {arguments.url}"
        )
    kind = (
        http.client.HTTPSConnection
        if address.scheme == "https"
        else http.client.HTTPConnection
    )
    path = f"{address.path.rstrip('/')}/v1/models/{quote(arguments.model, safe='')}"

    def body(texts: list[str]) -> bytes:
        request: dict[str, Any] = {"instances": texts}
        if arguments.signature:
            request["signature_name"] = arguments.signature
        return json.dumps(request).encode()

    def connect() -> tuple[Send, Callable[[], None]]:
        connection = kind(address.netloc, timeout=arguments.timeout)

        def send(request: bytes) -> None:
            try:
                connection.request("POST", f"{path}:predict", request)
                response = connection.getresponse()
                answer = response.read()
            except Exception:
                connection.close()  # the next request opens a new one
                raise
            if response.status != 200:
                raise CommandError(f"{response.status}: {answer[:300]!r}")

        return send, connection.close

    return body, connect


def _grpc(
    arguments: argparse.Namespace, target: str
) -> tuple[Callable[[list[str]], bytes], Callable[[], tuple[Send, Callable[[], None]]]]:
    import grpc
    import numpy as np

    from serving.client.grpc_messages import (
        CHANNEL_OPTIONS,
        PREDICT_METHOD,
        predict_call,
    )
    from serving.client.options import ClientOptions

    def body(texts: list[str]) -> bytes:
        array = np.empty(len(texts), dtype=object)
        array[:] = [text.encode() for text in texts]
        options = ClientOptions(arguments.model, signature=arguments.signature)
        request = predict_call(options, {"text": array}).request
        serialized: bytes = request.SerializeToString()
        return serialized

    def connect() -> tuple[Send, Callable[[], None]]:
        # A pool of its own for each channel, else all share one connection.
        options = (*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
        channel = grpc.insecure_channel(target, options=options)
        call = channel.unary_unary(PREDICT_METHOD)

        def send(request: bytes) -> None:
            call(request, timeout=arguments.timeout)

        return send, channel.close

    return body, connect
