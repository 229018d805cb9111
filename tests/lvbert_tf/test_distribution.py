"""Training steps under tf.distribute equal those of one device."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster import cluster, free_ports
from tests.paths import REPOSITORY

pytestmark = pytest.mark.multi_device

KINDS = [
    ("supernet", "sgd"),
    pytest.param("electra", "adamw", marks=pytest.mark.slow),
    pytest.param("supernet", "adamw", marks=pytest.mark.slow),
    pytest.param("electra", "sgd", marks=pytest.mark.slow),
]


def _start(
    kind: str, optimizer: str, strategy: str, output: Path, **environment: str
) -> subprocess.Popen[str]:
    module = "tests.lvbert_tf.distributed_training"
    return subprocess.Popen(
        [sys.executable, "-m", module, kind, optimizer, strategy, str(output)],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(processes: list[subprocess.Popen[str]]) -> None:
    errors = [process.communicate(timeout=400)[1] for process in processes]
    assert [p.returncode for p in processes] == [0] * len(processes), errors


def _read(path: Path) -> tuple[dict[str, Any], dict[str, float]]:
    content = dict(np.load(path))
    return content, json.loads(str(content.pop("figures")))


def _assert_equal(one: Path, others: list[Path], copies: int) -> None:
    """Every copy of every weight within 1e-5 of one device's, and equal to the rest."""
    alone, figures = _read(one)
    first, _ = _read(others[0])
    for other in others:
        weights, found = _read(other)
        assert len(weights) == copies * len(alone)
        for name, value in weights.items():
            variable = name.split("@")[0]
            # The sums over a batch are taken in another order.
            np.testing.assert_allclose(
                value, alone[f"{variable}@0"], atol=1e-5, rtol=0, err_msg=name
            )
            assert np.array_equal(value, first[f"{variable}@0"])
        for name, value in figures.items():
            assert found[name] == pytest.approx(value, rel=1e-4), name
    assert np.isfinite(figures["loss"])


@pytest.mark.parametrize(("kind", "optimizer"), KINDS)
def test_two_devices_equal_one(kind: str, optimizer: str, tmp_path: Path) -> None:
    strategies = ("one", "mirrored")
    _finish([_start(kind, optimizer, s, tmp_path / f"{s}.npz") for s in strategies])
    _assert_equal(tmp_path / "one.npz", [tmp_path / "mirrored.npz"], copies=2)


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [
        ("supernet", "adamw"),
        pytest.param("supernet", "sgd", marks=pytest.mark.slow),
        pytest.param("electra", "adamw", marks=pytest.mark.slow),
        pytest.param("electra", "sgd", marks=pytest.mark.slow),
    ],
)
def test_two_processes_equal_one(kind: str, optimizer: str, tmp_path: Path) -> None:
    ports = free_ports(2)
    outputs = [tmp_path / f"worker_{i}.npz" for i in range(2)]
    workers = [
        _start(kind, optimizer, "workers", output, TF_CONFIG=cluster(i, ports))
        for i, output in enumerate(outputs)
    ]
    _finish([*workers, _start(kind, optimizer, "one", tmp_path / "one.npz")])
    _assert_equal(tmp_path / "one.npz", outputs, copies=1)


@pytest.mark.slow
def test_stock_optimizers_take_the_same_steps_on_two_devices() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lvbert_tf.stock_optimizers"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout.splitlines()[-1])
    assert len(differences) == 7 + 3
    # Sums in another order; nothing is squared before the replicas are summed.
    assert max(differences.values()) < 1e-5, differences
