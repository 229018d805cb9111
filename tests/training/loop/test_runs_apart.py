"""Runs in processes of their own: killed ones go on, two replicas train like one."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.paths import REPOSITORY
from tests.training.conftest import TINY_MODEL
from tests.training.runs import SUPERNET, assert_same_run, state


# By default `test_train` interrupts runs within this process.
@pytest.mark.slow
@pytest.mark.parametrize(
    "devices",
    [
        [],
        pytest.param(
            ["run.strategy=mirrored", "run.logical_cpus=2"],
            marks=pytest.mark.multi_device,
        ),
    ],
    ids=["one device", "mirrored"],
)
def test_a_supernet_killed_at_any_step_resumes_bit_for_bit(
    tmp_path: Path, tiny_data: Path, devices: list[str]
) -> None:
    """R01, R02: weights, optimizer, steps, learning rates and data order."""
    # More steps than the others take, so that the kill surely comes before the end.
    where = f"data.directory={tiny_data}"
    overrides = [*TINY_MODEL, *SUPERNET, "run.steps=60", where, *devices]
    command = [sys.executable, "-m", "training", "supernet"]
    for override in overrides:
        command += ["--set", override]

    def start(run_dir: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, "--run-dir", str(run_dir)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    process = start(tmp_path / "killed")
    metrics = tmp_path / "killed" / "metrics.jsonl"
    while not (metrics.exists() and len(metrics.read_bytes().splitlines()) > 10):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert not (tmp_path / "killed" / "result.json").exists()
    processes = [start(tmp_path / "killed"), start(tmp_path / "straight")]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert_same_run(tmp_path / "killed", tmp_path / "straight")


# By default `test_distribution` looks at the steps; this is the command around them.
@pytest.mark.slow
@pytest.mark.multi_device
def test_two_replicas_train_like_one_device(tmp_path: Path, tiny_data: Path) -> None:
    command = [sys.executable, "-m", "training", "supernet"]
    for override in (
        *TINY_MODEL,
        *SUPERNET,
        "model.dropout=0",
        "model.attention_dropout=0",
        f"data.directory={tiny_data}",
    ):
        command += ["--set", override]
    mirrored = ["run.strategy=mirrored", "run.logical_cpus=2"]
    processes = [
        subprocess.Popen(
            [*command, "--run-dir", str(tmp_path / name), *more],
            cwd=REPOSITORY,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, more in (
            ("one", []),
            ("two", [word for item in mirrored for word in ("--set", item)]),
        )
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    one, two = state(tmp_path / "one"), state(tmp_path / "two")
    for name in one:
        if name.startswith("model/"):
            np.testing.assert_allclose(one[name], two[name], atol=1e-5, err_msg=name)
