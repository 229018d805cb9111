"""The commands ``serve``, ``predict`` and ``bench``, as a user runs them."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from tests.paths import REPOSITORY
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


def run(
    *arguments: str, standard_input: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "serving", *arguments],
        cwd=REPOSITORY,
        input=standard_input if standard_input is not None else "",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"]])
def test_help_comes_at_once(arguments: list[str]) -> None:
    started = time.monotonic()
    result = run(*arguments)
    assert result.returncode == 0
    assert "usage: python -m serving" in result.stdout
    # Under a second on an idle machine; TensorFlow alone takes longer than this.
    assert time.monotonic() - started < 2


def test_predict(server: RunningServer) -> None:
    arguments = ["predict", "--url", server.rest_url, "--model", "clf"]
    result = run(*arguments, "good movies", "bad")
    assert result.returncode == 0, result.stderr
    predictions = json.loads(result.stdout.splitlines()[-1])["predictions"]
    assert len(predictions) == 2
    assert predictions[0].keys() == {"scores", "label"}
    from_lines = run(
        *arguments[:2],
        f"grpc://{server.grpc_address}",
        *arguments[3:],
        "--max-batch",
        "1",
        standard_input="good movies\nbad\n",
    )
    assert json.loads(from_lines.stdout)["predictions"] == predictions


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        (["--url", "{rest}", "--model", "nope", "a"], 1, "Latest(nope)"),
        (["--url", "{rest}", "--model", "clf", "--version", "9", "a"], 1, "(clf, 9)"),
        (["--url", "localhost:1", "--model", "clf", "a"], 2, "http://"),
        (["--url", "{rest}", "--model", "clf", "--pairs", "no tab"], 2, "tab"),
        (["--url", "{rest}", "--model", "clf", "--max-batch", "0", "a"], 2, "Received"),
        (["--model", "clf", "a"], 2, "--url"),
        (
            ["--url", "http://127.0.0.1:1", "--model", "clf", "--tries", "1", "a"],
            1,
            "after 1 try",
        ),
    ],
)
def test_predict_errors(
    server: RunningServer, arguments: list[str], status: int, part: str
) -> None:
    result = run("predict", *(text.format(rest=server.rest_url) for text in arguments))
    assert result.returncode == status
    assert part in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_bench(server: RunningServer) -> None:
    for url in (server.rest_url, f"grpc://{server.grpc_address}"):
        arguments = ["--url", url, "--model", "clf", "--concurrency", "2"]
        result = run(
            "bench", *arguments, "--seconds", "0.5", "--warm-up-seconds", "0.2"
        )
        assert result.returncode == 0, result.stderr
        report = json.loads(result.stdout.splitlines()[-1])
        assert report["errors"] == 0
        assert report["requests_per_second"] == pytest.approx(
            report["requests"] / report["seconds"], rel=0.01
        )
        latency = report["latency_ms"]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p95"] <= latency["p99"]
        assert latency["p99"] <= latency["max"]


def test_bench_without_answers_fails(server: RunningServer) -> None:
    arguments = ["--url", server.rest_url, "--model", "nope", "--seconds", "0.2"]
    result = run("bench", *arguments, "--warm-up-seconds", "0")
    assert result.returncode == 1
    assert "404" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "--model"),
        (["--model", "clf"], "NAME=BASE"),
        (["--model", "clf={tmp}"], "no version to serve"),
        (["--model", "clf={models}/clf", "--rest-port", "70000"], "--rest-port"),
        (["--model", "clf={models}/clf", "--rest-port", "1234"], "two ports"),
        (["--model", "clf={models}/clf", "--batching", "{tmp}/no"], "{tmp}/no"),
        (["--model", "a={models}/clf", "--model", "a={models}/clf"], "given twice"),
        (["--model", "clf={models}/clf", "--poll-config"], "--config"),
        (["--model", "clf={models}/clf", "--poll-seconds", "0"], "--poll-seconds"),
    ],
)
def test_serve_usage_errors(
    models: Path, tmp_path: Path, arguments: list[str], part: str
) -> None:
    def fill(text: str) -> str:
        return text.format(tmp=tmp_path, models=models)

    more = ["--grpc-port", "1234"] if "two ports" in part else []
    started = time.monotonic()
    result = run("serve", *(fill(text) for text in arguments), *more)
    assert result.returncode == 2
    assert fill(part) in result.stderr
    assert "Traceback" not in result.stderr
    assert time.monotonic() - started < 5, "it should fail before TensorFlow is loaded"


def test_serve_from_start_to_end(models: Path, tmp_path: Path) -> None:
    """The ready line, requests, a taken port, a clean end by SIGINT."""
    running = RunningServer(
        tmp_path / "log", "--model", f"clf={models}/clf", "--host", "127.0.0.1"
    )
    try:
        assert running.ready["ready"] is True
        assert running.ready["models"] == {"clf": [2]}
        url = f"{running.rest_url}/v1/models/clf:predict"
        for text in ("good", 7):
            requests.post(url, json={"instances": [text]}, timeout=30)
        port = running.rest_url.rsplit(":", 1)[1]
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", int(port)))
        grpc_port = int(running.grpc_address.rsplit(":", 1)[1])
        with socket.socket() as other:
            # gRPC shares ports by default; this server must not.
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", grpc_port))
        result = running.stop(signal.SIGINT)
        assert result["stopped"] == "SIGINT"
        assert (result["requests"], result["errors"]) == (2, 1)
    finally:
        running.kill()
    assert "Traceback" not in (tmp_path / "log").read_text()
