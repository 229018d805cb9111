"""The shared request cases for servers that speak the TensorFlow Serving API."""

import importlib.util
import sys
from pathlib import Path

import pytest
import requests

from tests.paths import require_shared
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


def check_all_cases(
    server: RunningServer,
    cases: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every case, REST and gRPC; the runner keeps those that may kill it for last."""
    script = require_shared("serving/run_conformance.py")
    spec = importlib.util.spec_from_file_location("run_conformance", script)
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    arguments = ["--cases", str(cases), "--rest", server.rest_url.split("//")[1]]
    arguments += ["--grpc", server.grpc_address, "--include-danger"]
    monkeypatch.setattr(sys, "argv", ["run_conformance.py", *arguments])
    failed = runner.main()
    report = capsys.readouterr().out
    assert failed == 0, report
    assert "129 of 129 cases hold" in report


# The runner leaves its connections to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.export
def test_all_cases_hold_of_an_export(
    own_server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a classifier that this project exported, with all signatures it can have."""
    text = require_shared("serving/conformance.json").read_text()
    # The cases ask for a model called clf, which is the toy of other tests here.
    cases = tmp_path / "conformance.json"
    cases.write_text(text.replace("clf", "own"))
    check_all_cases(own_server, cases, monkeypatch, capsys)
    # The server has lived through it all.
    for name in ("own", "clf"):
        status = requests.get(
            f"{own_server.rest_url}/v1/models/{name}/metadata", timeout=10
        )
        assert status.status_code == 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.slow
def test_all_cases_hold_of_a_toy(
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a graph that others wrote."""
    cases = require_shared("serving/conformance.json")
    check_all_cases(server, cases, monkeypatch, capsys)
