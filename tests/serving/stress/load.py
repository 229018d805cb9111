"""Clients of all kinds: good, bad, huge, aborted, slow and hurried."""

import contextlib
import json
import random
import socket
import threading
import time
from typing import Any

import grpc
import requests

from serving.client import ClientError, Retry, connect
from tests.serving.running_server import RunningServer
from tests.serving.stress.record import Record

TEXTS = ["good movie", "bad movies", "", "good " * 30]


class Load:
    """Clients of all kinds, each on threads of its own.

    Args:
        server: what they ask.
        right: the answers to `TEXTS` of each version, even and odd.
        record: takes what they see.
    """

    def __init__(self, server: RunningServer, right: list[Any], record: Record) -> None:
        self._server = server
        self._right = right
        self._record = record
        self._stop = threading.Event()
        port = int(server.rest_url.rsplit(":", 1)[1])
        self._address = ("127.0.0.1", port)
        kinds = [
            *[self._good] * 12,
            *[self._bad, self._huge, self._aborted, self._slow, self._hurried],
        ]
        self._threads = [
            threading.Thread(target=self._repeat, args=(k,)) for k in kinds
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends all clients and waits for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _repeat(self, kind: Any) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                kind(number)
            except (OSError, requests.RequestException) as error:
                if not self._stop.is_set():
                    self._record.counts[f"broken {type(error).__name__}"] += 1
                time.sleep(0.05)

    def _good(self, number: int) -> None:
        url = self._server.rest_url
        if number % 3 == 0:
            url = f"grpc://{self._server.grpc_address}"
        label = "stable" if number % 2 else None
        client = connect(url, "clf", label=label, timeout_s=30, retry=Retry(tries=12))
        started = time.monotonic()
        with client:
            for _ in range(20):
                if self._stop.is_set():
                    return
                started = time.monotonic()
                try:
                    answer = client.predict(TEXTS)
                except ClientError as error:
                    if not self._stop.is_set():
                        self._record.counts[f"good failed {error.code}"] += 1
                        self._record.wrong.append(str(error)[:300])
                    return
                milliseconds = (time.monotonic() - started) * 1000
                self._record.latencies.append((self._record.now(), milliseconds))
                self._record.counts["good"] += 1
                if answer not in self._right:
                    self._record.wrong.append(f"answered {answer}")

    def _expect(self, kind: str, answer: requests.Response, *statuses: int) -> None:
        self._record.counts[f"{kind} {answer.status_code}"] += 1
        if answer.status_code == 503:
            if "retry-after" not in answer.headers:
                self._record.wrong.append(f"{kind}: 503 without Retry-After")
        elif answer.status_code not in statuses:
            self._record.wrong.append(
                f"{kind}: {answer.status_code} {answer.text[:200]}"
            )

    def _bad(self, number: int) -> None:
        bodies = (b"{", b'{"instances": [7]}', b'{"inputs": {"x": ["a"]}}', b"\xff")
        url = f"{self._server.rest_url}/v1/models/clf:predict"
        answer = requests.post(url, data=bodies[number % len(bodies)], timeout=30)
        self._expect("bad", answer, 400)
        time.sleep(0.01)

    def _huge(self, number: int) -> None:
        url = f"{self._server.rest_url}/v1/models/clf:predict"
        body = json.dumps({"instances": ["a"] * 200_000})
        if number % 2:
            body = json.dumps({"instances": ["a" * 9_000_000]})
        answer = requests.post(url, data=body, timeout=30)
        self._expect("huge", answer, 400, 413)
        time.sleep(0.2)

    def _aborted(self, number: int) -> None:
        with socket.create_connection(self._address, timeout=10) as opened:
            opened.sendall(
                b"POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n"
                b"Content-Length: 100000\r\n\r\n" + b"x" * random.randrange(90_000)
            )
        self._record.counts["aborted"] += 1
        time.sleep(0.05)

    def _slow(self, number: int) -> None:
        with socket.create_connection(self._address, timeout=30) as opened:
            opened.sendall(b"POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n")
            for _ in range(100):
                if self._stop.is_set():
                    return
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    opened.sendall(b"X-Slow: y\r\n")
                time.sleep(0.1)
                opened.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if opened.recv(100).startswith(b"HTTP/1.1 408"):
                        self._record.counts["slow 408"] += 1
                        return
                opened.setblocking(True)
        self._record.wrong.append("a head that trickled in for 10 s was waited for")

    def _hurried(self, number: int) -> None:
        """Asks with a deadline that cannot be met, then whether it was honoured."""
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

        request = predict_pb2.PredictRequest()
        request.model_spec.name = "clf"
        tensor = request.inputs["text"]
        tensor.dtype = 7
        tensor.tensor_shape.dim.add(size=8)
        tensor.string_val.append(b"good " * 100)
        with grpc.insecure_channel(self._server.grpc_address) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            started = time.monotonic()
            try:
                stub.Predict(request, timeout=0.005)
                self._record.counts["hurried OK"] += 1
            except grpc.RpcError as error:
                self._record.counts[f"hurried {error.code().name}"] += 1
                if time.monotonic() - started > 2:
                    self._record.wrong.append("a deadline of 5 ms took over 2 s")
        time.sleep(0.1)
