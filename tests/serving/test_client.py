"""The REST client against a scripted server: splitting, order, retries, errors."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from serving.client import ClientError, RestClient, Retry, batches
from serving.client.retry import TemporaryError
from tests.paths import REPOSITORY

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class ScriptedServer(ThreadingHTTPServer):
    """Answers requests by a function and remembers them."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer: Answer = echo
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        status, answer = self.server.answer(body)
        payload = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        with contextlib.suppress(BrokenPipeError):
            self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the client may have gone
            self.wfile.write(payload)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


def echo(body: dict[str, Any]) -> tuple[int, Any]:
    return 200, {"predictions": [text.upper() for text in body["instances"]]}


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_long_inputs_are_split_in_order(scripted: ScriptedServer) -> None:
    # X09, with the generated batching file in `test_deploy`.
    texts = [f"text {number}" for number in range(100)]
    with RestClient(scripted.url, "clf", max_batch=32) as client:
        assert client.predict(texts) == [text.upper() for text in texts]
    sizes = [len(request["instances"]) for request in scripted.requests]
    assert sizes == [32, 32, 32, 4]
    sent = [text for request in scripted.requests for text in request["instances"]]
    assert sent == texts


@pytest.mark.parametrize("status", [429, 503])
def test_busy_servers_are_asked_again(scripted: ScriptedServer, status: int) -> None:
    def busy_twice(body: dict[str, Any]) -> tuple[int, Any]:
        return echo(body) if len(scripted.requests) > 2 else (status, {"error": "busy"})

    scripted.answer = busy_twice
    with RestClient(scripted.url, "clf", retry=Retry(first_wait_s=0.01)) as client:
        assert client.predict(["a"]) == ["A"]
    assert len(scripted.requests) == 3


def test_what_cannot_help_is_not_tried_again(scripted: ScriptedServer) -> None:
    scripted.answer = lambda body: (400, {"error": "no such input"})
    with (
        RestClient(scripted.url, "clf") as client,
        pytest.raises(ClientError, match=r"400.*no such input") as caught,
    ):
        client.predict(["a"])
    assert caught.value.code == 400
    assert len(scripted.requests) == 1


def test_the_final_error_says_it_all(scripted: ScriptedServer) -> None:
    # X11, with the two above; a server whose queue is full: `test_batching`.
    scripted.answer = lambda body: (503, {"error": "queue is full"})
    retry = Retry(tries=3, first_wait_s=0.01)
    with (
        RestClient(scripted.url, "clf", retry=retry) as client,
        pytest.raises(ClientError) as caught,
    ):
        client.predict(["a"])
    message = str(caught.value)
    for part in (scripted.url, "clf:predict", "3 tries", "503", "queue is full"):
        assert part in message
    assert caught.value.code == 503


def test_a_dead_server_is_tried_again_then_named() -> None:
    retry = Retry(tries=2, first_wait_s=0.01)
    with (
        RestClient("http://127.0.0.1:1", "clf", retry=retry) as client,
        pytest.raises(ClientError, match=r"127\.0\.0\.1.*2 tries"),
    ):
        client.predict(["a"])


def test_wrong_answers_are_no_predictions(scripted: ScriptedServer) -> None:
    scripted.answer = lambda body: (200, {"predictions": ["only one"]})
    with (
        RestClient(scripted.url, "clf") as client,
        pytest.raises(ClientError, match="expected 'predictions' with 2 rows"),
    ):
        client.predict(["a", "b"])


def test_waits_double_are_jittered_and_bounded() -> None:
    waits: list[float] = []

    def fail(left_s: float) -> None:
        raise TemporaryError("busy", 503, wait_s=0.5 if len(waits) == 4 else None)

    with pytest.raises(ClientError):
        Retry(tries=6, first_wait_s=0.1, longest_wait_s=0.4).run(
            fail, "test", sleep=waits.append
        )
    assert len(waits) == 5
    for number, wait in enumerate(waits[:3]):
        assert 0.05 * 2**number <= wait <= 0.1 * 2**number
    assert waits[4] == 0.4  # the server asked for 0.5, the limit is 0.4


def test_one_deadline_holds_over_all_tries() -> None:
    """Six read timeouts of 30 s made a caller wait for three minutes."""
    allowed: list[float] = []

    def never(left_s: float) -> None:
        allowed.append(left_s)
        time.sleep(min(left_s, 0.15))
        raise TemporaryError("no answer")

    started = time.monotonic()
    with pytest.raises(ClientError, match=r"tries in 0\.\d s"):
        Retry(tries=50, first_wait_s=0.01).run(never, "test", deadline_s=0.4)
    assert time.monotonic() - started < 2  # of 0.4; the machine may be busy
    assert allowed[0] <= 0.4
    assert allowed == sorted(allowed, reverse=True)
    assert len(allowed) > 1


def test_a_server_that_hangs_costs_the_timeout_once(scripted: ScriptedServer) -> None:
    hold = threading.Event()

    def hang(body: dict[str, Any]) -> tuple[int, Any]:
        hold.wait(20)
        return echo(body)

    scripted.answer = hang
    started = time.monotonic()
    with (
        RestClient(scripted.url, "clf", timeout_s=0.3) as client,
        pytest.raises(ClientError, match="ReadTimeout"),
    ):
        client.predict(["a"])
    elapsed = time.monotonic() - started
    hold.set()
    assert 0.25 < elapsed < 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: RestClient("ftp://host", "m"),
        lambda: RestClient("http://host", "m", version=1, label="x"),
        lambda: list(batches([1], 0)),
        lambda: Retry(tries=0).run(lambda left_s: None, "x"),
    ],
)
def test_wrong_arguments(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="Received"):
        make()


def test_clients_import_neither_tensorflow_nor_keras() -> None:
    script = (
        "import sys, serving.client.grpc_client, serving.client.rest_client, "
        "serving.client.async_grpc_client, serving.client.async_rest_client, "
        "serving.predict, "
        "serving.bench, serving.serve\n"
        "print(*(m for m in ('tensorflow', 'keras', 'tensorflow_serving') "
        "if m in sys.modules))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert output.stdout.strip() == ""
