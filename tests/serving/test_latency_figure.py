"""The picture of latencies, and the percentiles it names."""

from pathlib import Path

import pytest

from serving.latency_figure import draw, percentile


@pytest.mark.parametrize(
    "latencies", [[1.5], [2.0] * 50, [0.1 * n for n in range(1, 999)]]
)
def test_it_is_drawn_whole_or_not_at_all(
    tmp_path: Path, latencies: list[float]
) -> None:
    path = tmp_path / "figure.svg"
    draw(latencies, 3, "clf", path)
    text = path.read_text()
    assert "</svg>" in text
    assert [p.name for p in tmp_path.iterdir()] == ["figure.svg"]
    with pytest.raises(ValueError, match="xyz"):
        draw(latencies, 3, "clf", tmp_path / "figure.xyz")
    assert [p.name for p in tmp_path.iterdir()] == ["figure.svg"]


def test_percentiles_do_not_interpolate() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 99) == 4.0
    assert percentile([7.0], 50) == 7.0
