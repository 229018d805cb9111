"""Setting TensorFlow up: what a strategy needs that is not there."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from common.command_line import CommandError
from tests.paths import REPOSITORY
from tests.training.conftest import TINY_MODEL
from training.run.devices import set_up


def test_a_tpu_that_is_not_there_is_an_error(tmp_path: Path, tiny_data: Path) -> None:
    command = [sys.executable, "-m", "training", "supernet"]
    for override in (
        *TINY_MODEL,
        "model.num_layers=3",
        f"data.directory={tiny_data}",
        "run.strategy=tpu",
    ):
        command += ["--set", override]
    done = subprocess.run(
        [*command, "--run-dir", str(tmp_path / "run")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "run.strategy = tpu: expected the TPU 'local'" in done.stderr
    assert "TPU_NAME" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def fake_tpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A TPU whose number of hosts the test sets; remembers which one was asked for."""
    seen: dict[str, Any] = {"hosts": 1, "deterministic": False}

    def connect(name: str) -> str:
        seen["name"] = name
        return name

    resolver = SimpleNamespace(connect=connect)
    monkeypatch.setattr(
        tf.distribute.cluster_resolver, "TPUClusterResolver", resolver, raising=True
    )
    monkeypatch.setattr(
        tf.distribute,
        "TPUStrategy",
        lambda _: SimpleNamespace(
            extended=SimpleNamespace(num_hosts=seen["hosts"]), num_replicas_in_sync=8
        ),
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "enable_op_determinism",
        lambda: seen.update(deterministic=True),
    )
    return seen


def test_a_tpu_is_taken_as_a_whole(
    fake_tpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_NAME", "mine")
    distribution = set_up(strategy="tpu")
    assert fake_tpu["name"] == "mine"
    assert (distribution.num_replicas, distribution.num_workers) == (8, 1)
    # TensorFlow's own switch makes XLA refuse operations.
    assert not distribution.deterministic
    assert not fake_tpu["deterministic"]


def test_a_tpu_of_several_hosts_is_refused(fake_tpu: dict[str, Any]) -> None:
    fake_tpu["hosts"] = 4
    with pytest.raises(CommandError, match="of one host, found 'local' with 4"):
        set_up(strategy="tpu")
