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
        (("--runtime", "tflite"), "invalid choice"),
        (("--threads", "-1"), "--threads must be at least 0"),
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

    def stacks(architectures: Any, *_: Any, **__: Any) -> Any:
        return {name: name for name in architectures}

    def measure(stacks: Any, repeats: int) -> Any:
        return {key: [3.0 + sum(costs[a] for a in key)] * repeats for key in stacks}

    monkeypatch.setattr(latency, "make_stacks", stacks)
    monkeypatch.setattr(latency, "measure", measure)
    result = latency.run(tmp_path / "latency.json", letters="cs", repeats=4)
    assert result["milliseconds"] == pytest.approx(costs)
    assert result["base_milliseconds"] == pytest.approx(3.0)
    assert result["spread_milliseconds"] == pytest.approx({"c": 0.0, "s": 0.0})
    # 3 + 0.5 + 2 x 0.25
    assert latency.predicted_milliseconds(result, "scs") == pytest.approx(4.0)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "onnx-int8"])
def test_a_table_of_the_exported_artefact(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    runtime: str,
) -> None:
    file = tmp_path / "latency.json"
    status, result, errors = command(
        capsys,
        monkeypatch,
        *("--output", str(file), "--sequence-length", "16", "--repeats", "5"),
        *("--runtime", runtime, "--threads", "1", "--letters", "f"),
    )
    assert status == 0, errors
    assert 0 < result["milliseconds"]["f"] < 1000
    assert (result["runtime"], result["threads"]) == (runtime, 1)
    assert read_latency_table(file)["milliseconds"] == result["milliseconds"]
    assert list(tmp_path.iterdir()) == [file]
