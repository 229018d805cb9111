"""Layers, backbone and heads under another Keras backend, without TensorFlow."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lvbert_tf.portable_step import build, variables
from tests.paths import REPOSITORY

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None,
        reason="jax is not installed (it comes with the extra `dev`)",
    ),
]


def _run(backend: str, code: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *code],
        cwd=REPOSITORY,
        env={**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )


def _inputs(path: Path) -> None:
    draw = np.random.default_rng(0)
    padding_mask = np.arange(20) < np.array([[20], [11], [4]])
    arrays: dict[str, Any] = {
        "token_ids": draw.integers(5, 50, (3, 20)),
        "segment_ids": (np.arange(20) >= 3) * padding_mask,
        "padding_mask": padding_mask.astype(int),
    }
    for i, variable in enumerate(variables(*build())):
        values = 0.3 * draw.standard_normal(variable.shape)
        arrays[f"weight_{i}"] = values.astype("float32")
    np.savez(path, **arrays)


@pytest.mark.slow
def test_jax_gives_the_outputs_and_the_training_step_of_tensorflow(
    tmp_path: Path,
) -> None:
    _inputs(tmp_path / "inputs.npz")
    found = {}
    for backend in ("tensorflow", "jax"):
        target = tmp_path / f"{backend}.npz"
        code = ["-m", "tests.lvbert_tf.portable_step", str(tmp_path / "inputs.npz")]
        done = _run(backend, [*code, str(target)])
        assert done.returncode == 0, done.stderr
        found[backend] = dict(np.load(target))
    assert set(found["jax"]) == set(found["tensorflow"])
    for name, expected in found["tensorflow"].items():
        # float32 sums in another order; values are of the order of 1.
        np.testing.assert_allclose(
            found["jax"][name], expected, rtol=2e-5, atol=2e-5, err_msg=name
        )
    trained = [n for n in found["jax"] if n.startswith("trained_")]
    start = dict(np.load(tmp_path / "inputs.npz"))
    moved = sum(
        not np.array_equal(found["jax"][n], start[n.replace("trained", "weight")])
        for n in trained
    )
    # All but the four weights that judge ends and the two layers' biases of keys, which
    # cancel in the softmax.
    assert moved == len(trained) - 6


def test_what_needs_tensorflow_says_so() -> None:
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import lvbert_tf\n"
        "lvbert_tf.LVBertBackbone\n"
        "try:\n    lvbert_tf.LVBertSupernet\n"
        "except AttributeError as error:\n    print(error)\n"
        "try:\n    lvbert_tf.nothing\n"
        "except AttributeError as error:\n    print(error)\n"
    )
    done = _run("jax", ["-c", code])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "LVBertSupernet needs the Keras backend 'tensorflow'" in lines[0]
    assert "'jax'" in lines[0]
    assert lines[1] == "module 'lvbert_tf' has no attribute 'nothing'"
