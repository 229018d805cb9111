"""REST and gRPC, awaited or not: one answer; and a client without the checkout."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving.client import ClientError, Retry, connect, connect_async
from tests.paths import REPOSITORY
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving

TEXTS = ["good movie", "", "bad", "naïve 中", *["good bad movies"] * 40]
EXAMPLES = [{"text": "good"}, {"text": ["bad movie"]}]


def urls(server: RunningServer) -> list[str]:
    return [server.rest_url, f"grpc://{server.grpc_address}"]


def awaited(url: str, ask: Callable[[Any], Any], **options: Any) -> Any:
    async def run() -> Any:
        async with connect_async(url, "clf", **options) as client:
            return await ask(client)

    return asyncio.run(run())


def asked(url: str, ask: Callable[[Any], Any], **options: Any) -> Any:
    with connect(url, "clf", **options) as client:
        return ask(client)


@pytest.mark.parametrize(
    ("ask", "options"),
    [
        (lambda client: client.predict(TEXTS), {}),
        (lambda client: client.predict(TEXTS), {"version": 1, "max_batch": 7}),
        (lambda client: client.predict(["good"]), {"signature": "scores_only"}),
        (lambda client: client.classify(EXAMPLES), {"signature": "classify"}),
        (lambda client: client.status(), {}),
        (lambda client: client.metadata(), {"label": "stable"}),
        (lambda client: client.predict([]), {}),
    ],
    ids=["predict", "version", "one-output", "classify", "status", "metadata", "none"],
)
def test_all_clients_give_one_answer(
    server: RunningServer, ask: Callable[[Any], Any], options: dict[str, Any]
) -> None:
    answers = [
        get(url, ask, **options) for url in urls(server) for get in (asked, awaited)
    ]
    for answer in answers:
        assert answer == answers[0]
    if answers[0]:
        assert "1" in str(answers[0]) or "label" in str(answers[0])


def test_errors_name_the_request(server: RunningServer) -> None:
    for url in urls(server):
        for get in (asked, awaited):
            with pytest.raises(ClientError, match=r"nope") as caught:
                get(url, lambda client: client.predict(["a"]), signature="nope")
            assert caught.value.code in (400, "FAILED_PRECONDITION")
    grpc_url = urls(server)[1]
    with pytest.raises(ValueError, match="same inputs"):
        asked(grpc_url, lambda client: client.predict(["a", {"other": "b"}]))
    with pytest.raises(ValueError, match="texts or numbers"):
        asked(grpc_url, lambda client: client.classify([{"text": {}}]))


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_one_deadline_holds_for_those_who_await(scheme: str) -> None:
    """A port that takes connections and never answers."""

    async def run() -> None:
        hold = asyncio.Event()

        async def hang(reader: Any, writer: asyncio.StreamWriter) -> None:
            await hold.wait()
            writer.close()

        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = connect_async(f"{scheme}://127.0.0.1:{port}", "clf", timeout_s=0.4)
        started = time.monotonic()
        with pytest.raises(ClientError):
            await client.predict(["a"])
        assert time.monotonic() - started < 3
        await client.close()
        hold.set()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_others_run_while_one_waits(server: RunningServer) -> None:
    """Ten requests of half a second each, awaited together, take no five seconds."""

    async def run() -> float:
        async with connect_async(
            server.rest_url, "numbers", signature="slow", retry=Retry(tries=1)
        ) as client:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            await client.predict([{"numbers": 1.0}])
            ticking.cancel()
            return ticks

    assert asyncio.run(run()) > 5


def test_a_copied_client_works_without_the_checkout(
    server: RunningServer, tmp_path: Path
) -> None:
    shutil.copytree(REPOSITORY / "serving" / "client", tmp_path / "some_client")
    script = (
        "import asyncio, sys, some_client\n"
        f"sys.exit(1) if any('{REPOSITORY}' == p for p in sys.path) else None\n"
        "async def run(url):\n"
        "    async with some_client.connect_async(url, 'clf') as client:\n"
        "        return await client.predict(['good'])\n"
        f"for url in {urls(server)!r}:\n"
        "    with some_client.connect(url, 'clf') as client:\n"
        "        assert client.predict(['good']) == asyncio.run(run(url))\n"
        "names = ('serving', 'lvbert_tf', 'tensorflow', 'keras', 'training')\n"
        "assert not [name for name in names if name in sys.modules]\n"
        "print('done')\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert output.stdout.strip() == "done", output.stderr


@pytest.mark.slow
def test_an_installed_client_works(server: RunningServer, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(REPOSITORY / "serving" / "client", source)
    target = tmp_path / "site"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--target", str(target), str(source)),
        ],
        check=True,
    )
    script = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import lvbert_client\n"
        f"client = lvbert_client.connect({server.rest_url!r}, 'clf')\n"
        "print(len(client.predict(['good', 'bad']))); client.close()\n"
    )
    output = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert output.stdout.strip() == "2", output.stderr
