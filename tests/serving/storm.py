"""Many of the largest requests that are allowed, at once, and many that are not.

``python -m tests.serving.storm --model BASE`` starts a server on an export and reports
what its memory came to.
"""

import argparse
import json
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import requests

from tests.serving.running_server import RunningServer

_TEXT = b"good film " * 819  # 8,190 bytes: more tokens than any model reads
_MESSAGE = 8 * 2**20 - 2**12


class Storm:
    """Clients that all send at the same time.

    Args:
        server: serves `clf`, with the default limits.
    """

    def __init__(self, server: RunningServer) -> None:
        self.counts: Counter[str] = Counter()
        self._server = server
        self._stop = threading.Event()
        self._url = f"{server.rest_url}/v1/models/clf:predict"
        host, port = server.rest_url.split("//")[1].split(":")
        self._address = (host, int(port))

    def run(self, seconds: float, clients: int) -> None:
        """Sends for some seconds, with so many clients of each kind."""
        kinds: list[Callable[[], str]] = [
            self._long_texts,
            self._broadcast,
            self._ids,
            self._one_long_text,
            self._half_sent,
            self._many_lists,
            self._too_many_rows,
            self._too_large_a_broadcast,
        ]
        threads = [
            threading.Thread(target=self._repeat, args=(kind,))
            for kind in kinds
            for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self._stop.set()
        for thread in threads:
            thread.join(120)

    def _repeat(self, kind: Callable[[], str]) -> None:
        name = kind.__name__.strip("_")
        while not self._stop.is_set():
            try:
                status = kind()
            except (OSError, requests.RequestException) as error:
                status = type(error).__name__
            self.counts[f"{name} {status}"] += 1
            if not status.startswith(("200", "OK")):
                time.sleep(0.1)

    def _long_texts(self) -> str:
        """As many texts of 512 tokens as a request may have, and as many bytes."""
        body = json.dumps({"instances": [(_TEXT * 8)[:65_000].decode()] * 128})
        return self._post(body.encode())

    def _one_long_text(self) -> str:
        """One text of as many bytes as a message may have, over gRPC."""
        return self._predict([1], [b"good film " * (_MESSAGE // 10)])

    def _ids(self) -> str:
        row = {name: [1] * 512 for name in ("input_ids", "padding_mask")}
        row["segment_ids"] = [0] * 512
        body = {"signature_name": "tokens", "instances": [row] * 128}
        return self._post(json.dumps(body).encode())

    def _broadcast(self) -> str:
        """600 bytes that are 128 texts."""
        return self._predict([128], [_TEXT[:600]])

    def _many_lists(self) -> str:
        """As many values as a body may hold, which Python keeps as objects."""
        return self._post(b'{"instances": [%s[]]}' % (b"[]," * (_MESSAGE // 3)))

    def _too_many_rows(self) -> str:
        return self._post(json.dumps({"instances": ["a"] * 100_000}).encode())

    def _too_large_a_broadcast(self) -> str:
        return self._predict([50_000], [_TEXT[:380]])

    def _half_sent(self) -> str:
        with socket.create_connection(self._address, timeout=30) as opened:
            opened.sendall(
                b"POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n"
                b"Content-Length: 8000000\r\n\r\n" + b"x" * 7_900_000
            )
            return opened.recv(4096)[9:12].decode()

    def _post(self, body: bytes) -> str:
        answer = requests.post(self._url, data=body, timeout=120)
        return str(answer.status_code)

    def _predict(self, shape: list[int], texts: list[bytes]) -> str:
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

        request = predict_pb2.PredictRequest()
        request.model_spec.name = "clf"
        tensor = request.inputs["text"]
        tensor.dtype = 7
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.string_val.extend(texts)
        # A pool of its own for each channel, else all share one connection.
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        with grpc.insecure_channel(self._server.grpc_address, options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            try:
                stub.Predict(request, timeout=120)
            except grpc.RpcError as error:
                return str(error.code().name)
        return "OK"


def storm(model: Path, folder: Path, seconds: float, clients: int) -> dict[str, Any]:
    """Runs a storm over a server; returns its memory in MiB and how it answered."""
    server = RunningServer(
        folder / "log", "--model", f"clf={model}", "--stop-on-stdin-eof"
    )
    try:
        # What TensorFlow keeps once it has computed the largest request.
        warm_up = Storm(server)
        before = 0.0
        for _ in range(3):
            warm_up._broadcast()
            warm_up._long_texts()
            before = max(before, server.resident_mb())
        sky = Storm(server)
        sky.run(seconds, clients)
        peak = server.peak_mb()
        # What is still computed for those who have gone ends; then freed memory is
        # given back.
        deadline = time.monotonic() + 90
        while server.resident_mb() > 1.05 * before and time.monotonic() < deadline:
            time.sleep(1)
        after = server.resident_mb()
        good = requests.post(sky._url, json={"instances": ["good"]}, timeout=60)
        server.stop(None)
    finally:
        server.kill()
    return {
        "before_mb": before,
        "peak_mb": peak,
        "after_mb": after,
        "answers_after": good.status_code,
        "tracebacks": (folder / "log").read_text().count("Traceback"),
        "counts": dict(sorted(sky.counts.items())),
    }


def main() -> int:
    """Runs a storm and prints what memory came to as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=16, help="of each of 8 kinds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report = storm(
            arguments.model, Path(name), arguments.seconds, arguments.clients
        )
    print(json.dumps(report))
    return 0 if report["peak_mb"] < 4096 else 1


if __name__ == "__main__":
    sys.exit(main())
