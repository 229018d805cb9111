"""A short run of ``make fuzz``."""

from pathlib import Path

import pytest

from tests.serving.fuzz import fuzz
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


@pytest.mark.slow
def test_no_request_is_answered_with_an_internal_error(
    models: Path, tmp_path: Path
) -> None:
    server = RunningServer(
        tmp_path / "log",
        *("--model", f"clf={models / 'clf'}", "--stop-on-stdin-eof"),
        memory_bytes=8 * 2**30,
    )
    try:
        before = server.resident_mb()
        counts = fuzz(server, 2000, number=7)
        assert sum(counts.values()) >= 2000
        assert counts["REST 200"] > 20
        assert counts["gRPC OK"] > 20
        assert server.resident_mb() < 1.1 * before
        assert "Traceback" not in server.log.read_text()
        server.stop(None)
    finally:
        server.kill()
