"""The shared request cases for servers that speak the TensorFlow Serving API."""

import importlib.util
import sys

import pytest
import requests

from tests.paths import require_shared
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


# The runner leaves its connections to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_all_cases_hold(
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every case, REST and gRPC; the runner keeps those that may kill it for last."""
    cases = require_shared("serving/conformance.json")
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
    # The server has lived through it all.
    status = requests.get(f"{server.rest_url}/v1/models/clf/metadata", timeout=10)
    assert status.status_code == 200
