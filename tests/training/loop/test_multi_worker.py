"""The command under MultiWorkerMirroredStrategy: two processes on loopback."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cluster import cluster, free_ports
from tests.paths import REPOSITORY
from tests.training.conftest import TINY_MODEL
from tests.training.runs import SUPERNET, assert_same_run, state

pytestmark = [pytest.mark.multi_device, pytest.mark.slow]


def _start(
    run_dir: Path, data: Path, overrides: list[str], **environment: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "training", "supernet", "--run-dir", str(run_dir)]
    for override in [*TINY_MODEL, *SUPERNET, f"data.directory={data}", *overrides]:
        command += ["--set", override]
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _workers(
    run_dir: Path, data: Path, overrides: list[str]
) -> list[subprocess.Popen[str]]:
    ports = free_ports(2)
    overrides = [*overrides, "run.strategy=multi_worker"]
    return [
        _start(run_dir, data, overrides, TF_CONFIG=cluster(worker, ports))
        for worker in range(2)
    ]


def _finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    errors = [process.communicate(timeout=400)[1] for process in processes]
    assert [p.returncode for p in processes] == [0] * len(processes), errors
    return errors


def test_two_workers_train_like_one_device(tmp_path: Path, tiny_data: Path) -> None:
    plain = [
        "model.dropout=0",
        "model.attention_dropout=0",
        "optimizer.learning_rate=0.0002",
        "run.steps=20",
    ]
    _finish(
        [
            *_workers(tmp_path / "two", tiny_data, plain),
            _start(tmp_path / "one", tiny_data, plain),
        ]
    )
    one, two = state(tmp_path / "one"), state(tmp_path / "two")
    for name in one:
        if name.startswith("model/"):
            np.testing.assert_allclose(one[name], two[name], atol=1e-5, err_msg=name)


def test_a_worker_that_dies_stops_the_job_and_the_rerun_goes_on(
    tmp_path: Path, tiny_data: Path
) -> None:
    long = ["run.steps=300", "run.checkpoint_every=5", "run.evaluate_every=0"]
    straight = _workers(tmp_path / "straight", tiny_data, long)
    _finish(straight)

    chief, other = _workers(tmp_path / "killed", tiny_data, long)
    metrics = tmp_path / "killed" / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not (metrics.exists() and len(metrics.read_bytes().splitlines()) > 20):
        assert chief.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    other.kill()
    errors = chief.communicate(timeout=200)[1]
    other.communicate()
    assert chief.returncode == 1, errors
    assert "a worker" in errors, errors
    assert "the same command" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "killed" / "result.json").exists()

    _finish(_workers(tmp_path / "killed", tiny_data, long))
    assert_same_run(tmp_path / "killed", tmp_path / "straight")
