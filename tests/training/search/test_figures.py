"""Pictures of a search exist whole, and count letters right."""

from pathlib import Path
from typing import Any

import pytest

from training.search.figures import draw_front, draw_letters, draw_progress
from training.search.letter_statistics import letter_counts

PNG = b"\x89PNG\r\n\x1a\n"


def iterations(offset: float) -> list[dict[str, Any]]:
    return [
        {
            "iteration": i,
            "top": [{"accuracy": offset + 0.01 * (i + k)} for k in range(4)],
            "top_mean": offset + 0.01 * i,
        }
        for i in range(1, 6)
    ]


def test_letter_counts() -> None:
    assert letter_counts(["csf", "ccf", "cfs"], "csf") == {
        "c": [3, 1, 0],
        "s": [0, 1, 1],
        "f": [0, 1, 2],
    }
    with pytest.raises(ValueError, match="argument"):
        letter_counts(["csf", "cc"], "csf")


def test_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    draw_progress({"evolution": iterations(0.2)}, folder / "one.png", "accuracy")
    draw_progress(
        {"evolution": iterations(0.2), "random": iterations(0.1), "x": iterations(0.0)},
        folder / "search.png",
        "accuracy",
    )
    counts = letter_counts(["ccsffs", "ccsfss", "scsffs"], "csf")
    draw_letters(counts, 3, "csf", folder / "letters.png", fixed=[6])
    points = [(1.0, 0.1), (2.0, 0.3), (3.0, 0.2)]
    draw_front(points, points[:2], "params", folder / "pareto.png", "loss")
    names = ["letters.png", "one.png", "pareto.png", "search.png"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert all((folder / name).read_bytes().startswith(PNG) for name in names)
