"""The table of latencies: files, keys, errors; figures only roughly (it's a clock)."""

import json
from pathlib import Path
from typing import Any

import pytest

from training import __main__ as application
from training.search.constraints import read_latency_table
from training.studies import latency


def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[int, Any, str]:
    monkeypatch.setattr("sys.argv", ["training", "latency", *options])
    status = application.main()
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    return status, json.loads(lines[-1]) if lines else None, captured.err


def test_a_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "latency.json"
    options = ("--output", str(file), "--sequence-length", "16", "--repeats", "3")
    status, result, errors = command(capsys, monkeypatch, *options)
    assert status == 0, errors
    assert set(result["milliseconds"]) == {"c", "s", "f"}
    assert all(0 <= value < 1000 for value in result["milliseconds"].values())
    assert result["base_milliseconds"] >= 0
    assert (result["batch"], result["sequence_length"]) == (1, 16)
    assert result["hardware"]["processor"]
    assert result["hardware"]["cores"] >= 1
    assert read_latency_table(file)["milliseconds"] == result["milliseconds"]
    assert list(tmp_path.iterdir()) == [file]
    status, _, errors = command(capsys, monkeypatch, *options)
    assert status == 2
    assert "exists already" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--batch", "0"), "--batch must be at least 1"),
        (("--sequence-length", "0"), "--sequence-length must be at least 1"),
        (("--repeats", "0"), "--repeats must be at least 1"),
        (("--letters", "cq"), "--letters cq: expected letters of"),
        (("--size", "huge"), "invalid choice"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    file = str(tmp_path / "latency.json")
    status, _, errors = command(capsys, monkeypatch, "--output", file, *options)
    assert status == 2
    assert message in errors


def test_no_such_folder(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = str(tmp_path / "no" / "latency.json")
    status, _, errors = command(capsys, monkeypatch, "--output", file)
    assert status == 2
    assert "no such folder" in errors


def test_a_layer_is_the_difference_of_two_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a made-up clock: 3 ms a call, and for each layer what its letter costs."""
    costs = {"c": 0.5, "s": 0.25}

    def stack(architecture: str, *_: Any) -> Any:
        return architecture

    def measure(stacks: Any, repeats: int) -> Any:
        return {
            key: [3.0 + sum(costs[a] for a in architecture)] * repeats
            for key, architecture in stacks.items()
        }

    monkeypatch.setattr(latency, "_stack", stack)
    monkeypatch.setattr(latency, "_measure", measure)
    result = latency.run(tmp_path / "latency.json", letters="cs", repeats=4)
    assert result["milliseconds"] == pytest.approx(costs)
    assert result["base_milliseconds"] == pytest.approx(3.0)
    assert result["spread_milliseconds"] == pytest.approx({"c": 0.0, "s": 0.0})
