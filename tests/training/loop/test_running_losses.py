"""Running losses by letter and position."""

from pathlib import Path

import pytest

from training.loop.figures import draw_running_losses
from training.loop.running_losses import RunningLosses, parts_of_path


def test_parts() -> None:
    assert parts_of_path("cfc") == ["c", "f", "c", "00_c", "01_f", "02_c"]


def test_a_mean_follows_the_steps_that_used_its_part() -> None:
    running = RunningLosses()
    running.add(parts_of_path("cc"), 8.0)
    assert running.values == {"c": 8.0, "00_c": 8.0, "01_c": 8.0}
    running.add(parts_of_path("cs"), 4.0)
    assert running.values["c"] == pytest.approx(8.0 - 0.02 * 4.0)
    assert running.values["01_c"] == 8.0
    assert running.values["s"] == running.values["01_s"] == 4.0
    again = RunningLosses(running.values)
    again.add(["s"], 4.0)
    assert again.values == running.values
    assert set(running.figures()) == {f"running_loss/{k}" for k in running.values}


def test_many_steps_reach_the_mean() -> None:
    running = RunningLosses({"c": 10.0})
    for _ in range(400):
        running.add(["c"], 2.0)
    assert running.values["c"] == pytest.approx(2.0, abs=0.01)


def test_the_picture(tmp_path: Path) -> None:
    records = []
    running = RunningLosses()
    for step in range(1, 6):
        running.add(parts_of_path("csf"[step % 3] * 2), 9.0 - step)
        records.append({"step": step, "split": "train", **running.figures()})
    # The first line knows of one letter only; some cells are never filled.
    draw_running_losses(records, "sfc", 2, tmp_path / "letters.png")
    draw_running_losses([], "csf", 2, tmp_path / "none.png")
    assert (tmp_path / "letters.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "none.png").exists()
