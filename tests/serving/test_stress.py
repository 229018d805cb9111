"""A short run of ``make stress``, with the same claims."""

from pathlib import Path

import pytest

from tests.serving.stress.record import draw, verdict
from tests.serving.stress.run import stress

pytestmark = pytest.mark.serving


@pytest.mark.slow
def test_a_minute_of_load_while_versions_change(tmp_path: Path) -> None:
    record, findings = stress(tmp_path, 60)
    assert verdict(record, findings) == []
    assert record.counts["good"] > 100
    # Each kind of client has had its say.
    for kind in ("aborted", "bad 400", "huge 400", "huge 413", "slow 408"):
        assert record.counts[kind] > 0, record.counts
    assert record.counts["hurried DEADLINE_EXCEEDED"] > 0
    assert {what for _, what in record.events} == {"swap", "broken"}
    draw(record, tmp_path / "stress.png")
    assert (tmp_path / "stress.png").stat().st_size > 10_000
