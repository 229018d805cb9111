"""Requests that cost more than they weigh, against a server process and alone."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import grpc
import numpy as np
import pytest
import requests
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.gate import Gate
from serving.server.grpc_messages import Screen
from serving.server.limits import Limits, work
from serving.server.model_config import ModelConfig
from serving.server.status import ServingError
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


def texts(*values: bytes) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.fixture(scope="module")
def small(models: Path) -> Iterator[EmbeddedServer]:
    """A server with limits that small requests reach."""
    limits = Limits(
        max_request_bytes=20_000,
        max_bodies_bytes=30_000,
        max_text_bytes=5_000,
        max_tokens=2_000,
        max_rows=64,
        read_timeout_s=0.5,
        max_connections=8,
    )
    options = ServerOptions(rest_port=0, grpc_port=0, limits=limits)
    with EmbeddedServer([ModelConfig("clf", models / "clf")], options) as running:
        yield running


def test_a_broadcast_of_412_bytes_is_refused_for_its_rows(
    server: RunningServer,
) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "clf"
    tensor = request.inputs["text"]
    tensor.dtype = 7
    tensor.tensor_shape.dim.add(size=50_000)
    tensor.string_val.append(b"good film " * 38)
    assert request.ByteSize() < 450
    before = server.resident_mb()
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Predict(request, timeout=30)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "at most 1024 (--max-rows)" in caught.value.details()
        # Numbers, too, and a shape of many dimensions.
        tensor.Clear()
        tensor.dtype = 3
        for size in (1000, 1000, 1000):
            tensor.tensor_shape.dim.add(size=size)
        tensor.int_val.append(1)
        with pytest.raises(grpc.RpcError, match="--max-tokens"):
            stub.Predict(request, timeout=30)
    assert server.resident_mb() < before + 100


def test_many_rows_are_the_clients_error(server: RunningServer) -> None:
    """429 would make clients send them again."""
    answer = requests.post(
        f"{server.rest_url}/v1/models/clf:predict",
        json={"instances": ["a"] * 100_000},
        timeout=30,
    )
    assert answer.status_code == 400
    assert "--max-rows" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "flag"),
    [
        ({"instances": ["a"] * 65}, 400, "--max-rows"),
        ({"instances": ["a" * 6_000]}, 400, "--max-text-kb"),
        ({"instances": ["a" * 100] * 30}, 400, "--max-tokens"),
        ({"instances": ["a" * 30_000]}, 413, "--max-request-mb"),
        ({"instances": ["a" * 100]}, 200, ""),
    ],
)
def test_a_refusal_names_limit_and_flag(
    small: EmbeddedServer, body: Any, status: int, flag: str
) -> None:
    url = f"{small.rest_url}/v1/models/clf:predict"
    answer = requests.post(url, json=body, timeout=30)
    assert answer.status_code == status
    assert flag in answer.text


def test_a_shared_context_counts_for_each_example(small: EmbeddedServer) -> None:
    body = {
        "signature_name": "classify",
        "context": {"text": "a" * 1000},
        "examples": [{}] * 20,
    }
    url = f"{small.rest_url}/v1/models/clf:classify"
    answer = requests.post(url, json=body, timeout=30)
    assert answer.status_code == 400
    assert "--max-text-kb" in answer.json()["error"]


def raw(server: EmbeddedServer, head: str, body: bytes = b"") -> socket.socket:
    port = int(server.rest_url.rsplit(":", 1)[1])
    opened = socket.create_connection(("127.0.0.1", port), timeout=20)
    opened.sendall(
        f"POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n{head}".encode()
    )
    opened.sendall(b"\r\n\r\n" + body)
    return opened


def test_ten_terabytes_are_refused_at_once(small: EmbeddedServer) -> None:
    started = time.monotonic()
    with raw(small, "Content-Length: 10000000000000") as opened:
        answer = opened.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413")
    assert time.monotonic() - started < 0.4  # the time to read is 0.5 s


def test_half_sent_uploads_end_and_are_counted_together(small: EmbeddedServer) -> None:
    length = "Content-Length: 19000"
    with contextlib.ExitStack() as stack:
        halves = [
            stack.enter_context(raw(small, length, b"x" * 14_000)) for _ in range(3)
        ]
        answers = [half.recv(4096) for half in halves]
    statuses = sorted(answer.split()[1] for answer in answers)
    # Two fit in what all may hold together; they run out of time.
    assert statuses == [b"408", b"408", b"503"]
    (busy,) = [answer for answer in answers if b" 503 " in answer]
    assert b"retry-after: 1" in busy.lower()
    assert b"--max-bodies-mb" in busy
    # Nothing of it is left: a good request is answered.
    url = f"{small.rest_url}/v1/models/clf:predict"
    good = requests.post(url, json={"instances": ["good"]}, timeout=30)
    assert good.status_code == 200


@pytest.mark.parametrize(
    "head", ["", "POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\nX-Slow: "]
)
def test_a_half_sent_head_ends(small: EmbeddedServer, head: str) -> None:
    port = int(small.rest_url.rsplit(":", 1)[1])
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
        opened.sendall(head.encode())
        answer = opened.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"--read-timeout-ms" in answer
        assert opened.recv(1) == b""
    assert 0.4 < time.monotonic() - started < 5


def test_a_head_that_trickles_in_ends_on_a_kept_connection_too(
    small: EmbeddedServer,
) -> None:
    def ask(opened: socket.socket) -> bytes:
        opened.sendall(b"GET /v1/models/clf HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"]}"):
            answer += opened.recv(4096)
        return answer

    port = int(small.rest_url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
        assert ask(opened).startswith(b"HTTP/1.1 200")
        # Idle it may stay for longer than a head may take.
        time.sleep(0.8)
        assert ask(opened).startswith(b"HTTP/1.1 200")
        opened.sendall(b"GET /v1")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(20):
                time.sleep(0.1)
                opened.sendall(b"/")
        assert opened.recv(4096).startswith(b"HTTP/1.1 408")


def test_who_takes_no_answers_is_cut_off(models: Path) -> None:
    """Answers that nobody reads must not fill the memory."""
    options = ServerOptions(rest_port=0, grpc_port=0, limits=Limits(read_timeout_s=0.5))
    body = b'{"instances": [[%s1.0]]}' % (b"1.0, " * 60_000)
    request = (
        b"POST /v1/models/numbers:predict HTTP/1.1\r\nHost: x\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    numbers = [ModelConfig("numbers", models / "numbers")]
    with EmbeddedServer(numbers, options) as server, socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.settimeout(20)
        opened.connect(("127.0.0.1", int(server.rest_url.rsplit(":", 1)[1])))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            opened.sendall(request * 100)


@pytest.mark.parametrize("sent", ["", "Content-Length: 27\r\n\r\n"])
@pytest.mark.parametrize("client", ["ready", "starved"])
def test_a_server_that_is_busy_does_not_call_its_clients_late(
    small: EmbeddedServer, sent: str, client: str
) -> None:
    """What arrives while the event loop stands still has arrived.

    And a client that shares the busy machine gets the time that it was due.
    """
    head = "POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n"
    request = f'{head}Content-Length: 27\r\n\r\n{{"instances": ["a", "bad"]}}'
    before = f"{head}{sent}"
    port = int(small.rest_url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
        opened.sendall(before.encode())
        time.sleep(0.1)
        loop = small._http._clock.loop
        assert loop is not None
        # Three times as long as a head or a body may take.
        loop.call_soon_threadsafe(time.sleep, 1.5)
        over = threading.Event()
        loop.call_soon_threadsafe(over.set)
        if client == "starved":
            over.wait(20)
        opened.sendall(request[len(before) :].encode())
        assert opened.recv(4096).startswith(b"HTTP/1.1 200")


def test_connections_are_counted(small: EmbeddedServer) -> None:
    port = int(small.rest_url.rsplit(":", 1)[1])
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        time.sleep(0.1)
        last = stack.enter_context(
            socket.create_connection(("127.0.0.1", port), timeout=20)
        )
        answer = last.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"--max-connections" in answer
    assert b"retry-after" in answer


def test_work_counts_the_longest_row_for_each() -> None:
    assert work({"text": texts(b"ab", b"a" * 20)}) == 2 * 22
    assert work({"text": texts(b"a" * 9_999)}) == 512
    assert work({"input_ids": np.zeros([3, 7], np.int32)}) == 21
    assert work({}) == 1


def test_large_answers_are_refused_before_they_are_computed() -> None:
    limits = Limits(max_output_values=1000)
    ids = {"input_ids": np.zeros([4, 10], np.int32)}
    limits.check_outputs(ids, {"hidden": (None, None, 24), "any": None, "one": ()})
    with pytest.raises(ServingError, match=r"values.*1000 \(--max-output-values\)"):
        limits.check_outputs(ids, {"hidden": (None, None, 25), "pooled": (None, 1)})
    # A masked language model has logits for each position, not for each token.
    shapes = {"logits": (None, None, 250)}
    one = {"mask_positions": np.zeros([4, 1], np.int32)}
    limits.check_outputs(ids | one, shapes)
    many = {"mask_positions": np.zeros([4, 2], np.int32)}
    with pytest.raises(ServingError, match="Received: 2000"):
        limits.check_outputs(ids | many, shapes)


def test_grpc_messages_are_counted_together() -> None:
    """Many large ones at once are refused, not held."""
    plain = grpc.unary_unary_rpc_method_handler(
        lambda request, context: request, lambda data: data.decode()
    )
    details = SimpleNamespace(method="/any")
    handler = Screen(max_bytes=300).intercept_service(lambda _: plain, details)
    read, context = handler.request_deserializer, MagicMock()
    first = read(b"a" * 200)
    assert handler.unary_unary(first, context) == "a" * 200
    refused = read(b"b" * 200)
    handler.unary_unary(read(b"c" * 100), context)
    context.abort.side_effect = RuntimeError
    with pytest.raises(RuntimeError):
        handler.unary_unary(refused, context)
    code, text = context.abort.call_args.args
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "--max-bodies-mb" in text
    # Once the first is forgotten there is room again, also for a damaged one; and one
    # alone may be as large as a message can be.
    del first
    for data in (b"\xff" * 200, b"d" * 200, b"e" * 999):
        with contextlib.suppress(RuntimeError):
            handler.unary_unary(read(data), context)
    codes = [call.args[0] for call in context.abort.call_args_list]
    assert codes == [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INVALID_ARGUMENT]


def test_grpc_holds_no_more_calls_than_their_messages_allow() -> None:
    assert Limits().grpc_pending(16) == 64
    assert Limits().grpc_pending(128) == 128
    assert Limits(max_pending=8).grpc_pending(16) == 8
    assert Limits(max_request_bytes=2**31).grpc_pending(1) == 1


def test_what_does_not_fit_waits_its_turn() -> None:
    gate = Gate(10)
    order: list[str] = []

    def enter(name: str, tokens: int) -> None:
        with gate.admit(tokens):
            order.append(name)

    with gate.admit(6):
        threads = []
        # The large one came first, so the small one that would fit comes after it.
        for name, tokens in (("large", 8), ("small", 1)):
            threads.append(threading.Thread(target=enter, args=(name, tokens)))
            threads[-1].start()
            time.sleep(0.05)
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == ["large", "small"]
    # More than there is runs alone.
    hasty = Gate(10, patience_s=0.01)
    with (
        hasty.admit(99),
        pytest.raises(ServingError, match="--max-tokens-computing"),
        hasty.admit(1),
    ):
        pass


def test_help_names_each_limit() -> None:
    import argparse

    from serving.serve import add_arguments

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    defaults = vars(parser.parse_args(["--model", "a=b"]))
    limits = Limits()
    assert defaults["max_request_mb"] * 2**20 == limits.max_request_bytes
    assert defaults["max_bodies_mb"] * 2**20 == limits.max_bodies_bytes
    assert defaults["max_text_kb"] * 2**10 == limits.max_text_bytes
    assert defaults["read_timeout_ms"] / 1000 == limits.read_timeout_s
    counts = ("max_rows", "max_tokens", "max_tokens_computing", "max_pending")
    for name in (*counts, "max_connections", "max_output_values"):
        assert defaults[name] == getattr(limits, name)
        assert f"(default {defaults[name]})" in " ".join(parser.format_help().split())
