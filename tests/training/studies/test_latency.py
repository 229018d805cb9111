"""The table of latencies: files, keys, errors; figures only roughly (it's a clock)."""

import json
from pathlib import Path
from typing import Any

import pytest

from training import __main__ as application
from training.run import settings
from training.search.constraints import read_latency_table
from training.studies import latency
from training.studies.latency_experiment import LATENCY, LatencyExperiment


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
        (("--batch", "0"), "--batch: expected at least 1"),
        (("--sequence-length", "0"), "--sequence-length: expected at least 1"),
        (("--repeats", "0"), "--repeats: expected at least 1"),
        (("--letters", "cq"), "--letters cq: expected letters of"),
        (("--size", "huge"), "invalid choice"),
        (("--runtime", "tflite"), "invalid choice"),
        (("--threads", "-1"), "--threads: expected at least 0"),
        (("--set", "call.thread=1"), "unknown key call.thread; did you mean"),
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
    configuration = settings.load(
        LatencyExperiment, LATENCY, None, ["model.letters=cs", "study.repeats=4"]
    )
    result = latency.run(configuration, output=tmp_path / "latency.json")
    assert result["milliseconds"] == pytest.approx(costs)
    assert result["base_milliseconds"] == pytest.approx(3.0)
    assert result["spread_milliseconds"] == pytest.approx({"c": 0.0, "s": 0.0})
    # 3 + 0.5 + 2 x 0.25
    assert latency.predicted_milliseconds(result, "scs") == pytest.approx(4.0)


def test_a_run_directory_keeps_the_configuration_and_the_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, run_dir = tmp_path / "latency.toml", tmp_path / "run"
    config.write_text(
        'stage = "latency"\n[model]\nletters = "f"\nhidden_dim = 32\n'
        "intermediate_dim = 64\n[call]\nsequence_length = 8\n"
    )
    options = ("--config", str(config), "--set", "study.repeats=3", "--seed", "7")
    status, first, errors = command(
        capsys, monkeypatch, *options, "--run-dir", str(run_dir)
    )
    assert status == 0, errors
    assert (first["hidden_dim"], first["size"], first["repeats"]) == (32, None, 3)
    file = run_dir / "latency.json"
    assert first["output"] == str(file)
    assert read_latency_table(file) == json.loads((run_dir / "result.json").read_text())
    assert "seed = 7" in (run_dir / "config.toml").read_text()
    # Measured once, it is not measured again.
    again = command(capsys, monkeypatch, *options, "--run-dir", str(run_dir))
    assert again[:2] == (0, first)
    # Another configuration is another table.
    status, _, errors = command(
        *(capsys, monkeypatch, *options, "--batch", "2", "--run-dir", str(run_dir))
    )
    assert status == 2
    assert "call.batch: 1 there, 2 asked" in errors
    status, _, errors = command(capsys, monkeypatch, *options)
    assert status == 2
    assert "--output FILE or --run-dir DIR" in errors


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
