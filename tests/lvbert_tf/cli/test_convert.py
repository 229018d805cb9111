"""``lvbert convert``: official checkpoints become model directories."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvbert_tf.cli import main
from tests.paths import require_shared


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any, str]:
    status = main(["convert", *argv])
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    return status, json.loads(lines[-1]) if lines else None, captured.err


def test_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = require_shared("golden/encoder/short_0121")
    output = tmp_path / "model"
    argv = ("--checkpoint", str(folder / "model.ckpt"), "--output", str(output))
    status, result, errors = run(capsys, *argv)
    assert status == 0, errors
    config = json.loads((folder / "config.json").read_text())
    assert len(result["converted"]) == len(config["variables"])
    assert result["unused"] == result["missing"] == result["mismatched"] == []
    import lvbert_tf

    backbone = lvbert_tf.LVBertBackbone.from_preset(str(output))
    golden = np.load(folder / "io.npz")
    outputs = backbone(
        {
            "token_ids": golden["input_ids"],
            "segment_ids": golden["token_type_ids"],
            "padding_mask": golden["input_mask"],
        }
    )
    # float32 against float32 of another implementation: GOLDEN.md's tolerance
    np.testing.assert_allclose(outputs, golden["sequence_output"], atol=2e-5, rtol=0)
    assert main(["describe", str(output), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["architecture"] == "csfs"
    assert described["mask_convolution"] is False

    status, result, errors = run(capsys, *argv)
    assert status == 2
    assert "exists already" in errors
    assert run(capsys, *argv, "--overwrite")[0] == 0


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "model")
    missing = str(tmp_path / "model.ckpt")
    status, _, errors = run(capsys, "--checkpoint", missing, "--output", output)
    assert status == 2
    assert f"{missing}.index" in errors
    folder = require_shared("golden/encoder/short_11")
    checkpoint = str(folder / "model.ckpt")
    for options, message in (
        (("--num-heads", "0"), "--num-heads: expected a whole number of at least 1"),
        (("--vocabulary", missing), "no such file"),
    ):
        status, _, errors = run(
            capsys, "--checkpoint", checkpoint, "--output", output, *options
        )
        assert status == 2
        assert message in errors
    assert not Path(output).exists()


def test_what_does_not_fit_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = require_shared("golden/encoder/short_11")
    output = tmp_path / "model"
    status, _, errors = run(
        capsys,
        *("--checkpoint", str(folder / "model.ckpt"), "--output", str(output)),
        *("--kind", "electra", "--num-heads", "4"),
    )
    assert status == 1
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
