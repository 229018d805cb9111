"""Settings of tiny runs, and what two equal runs must have in common."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from training.pretraining import experiment

SUPERNET = ["model.num_layers=3"]
PRETRAIN = ["model.architecture=csf"]


def supernet_settings(data: Path, overrides: list[str]) -> Any:
    where = [f"data.directory={data}"]
    return experiment.load_supernet(None, [*where, *SUPERNET, *overrides])


def pretrain_settings(data: Path, overrides: list[str]) -> Any:
    where = [f"data.directory={data}"]
    return experiment.load_pretrain(None, [*where, *PRETRAIN, *overrides])


def state(run_dir: Path) -> dict[str, Any]:
    """Every array of the last checkpoint; `save_counter` only counts checkpoints."""
    path = tf.train.latest_checkpoint(str(run_dir / "checkpoints"))
    reader = tf.train.load_checkpoint(path)
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if not name.startswith(("_CHECKPOINTABLE", "save_counter"))
    }


def assert_same_run(one: Path, other: Path) -> None:
    ours, theirs = state(one), state(other)
    assert ours.keys() == theirs.keys()
    assert sum(name.startswith("optimizer/") for name in ours) > 50
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    metrics = [(path / "metrics.jsonl").read_bytes() for path in (one, other)]
    assert metrics[0] == metrics[1]
