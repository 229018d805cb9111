"""The loop: resume bit for bit, stops where it must, one trace, both splits logged."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from common.command_line import CommandError
from lvbert_tf import LVBertBackbone
from tests.training.conftest import TINY_MODEL
from tests.training.runs import (
    assert_same_run,
    pretrain_settings,
    state,
    supernet_settings,
)
from training.pretraining import pretrain, supernet, trained_supernet
from training.run.signals import StopRequested


def at_step(monkeypatch: pytest.MonkeyPatch, step: int, action: Any) -> None:
    """Calls `action` when the loop asks for the batch of a step."""
    original = pretrain.training_batches

    def watched(*arguments: Any, **options: Any) -> Any:
        batches = original(*arguments, **options)

        def observe(batch: Any) -> Any:
            def look(current: Any) -> Any:
                if int(current) == step:
                    action()
                return current

            seen = tf.py_function(look, [batch["step"][0]], tf.int64)
            seen.set_shape(())
            return {**batch, "step": tf.repeat(seen, batch["step"].shape[0])}

        return lambda first: batches(first).map(observe)

    monkeypatch.setattr(pretrain, "training_batches", watched)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    """An ELECTRA run that nothing interrupted."""
    run_dir = tmp_path_factory.mktemp("straight") / "run"
    pretrain.run(pretrain_settings(tiny_data, TINY_MODEL), run_dir)
    return run_dir


def test_electra_resumes_bit_for_bit_after_a_crash(
    tmp_path: Path, tiny_data: Path, straight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = pretrain_settings(tiny_data, TINY_MODEL)

    def crash() -> None:
        raise RuntimeError("the plug was pulled")

    with monkeypatch.context() as patch:
        at_step(patch, 7, crash)  # the last checkpoint is that of step 6
        with pytest.raises(tf.errors.OpError, match="the plug was pulled"):
            pretrain.run(settings, tmp_path)
    resumed = pretrain.run(settings, tmp_path)
    assert_same_run(tmp_path, straight)
    uninterrupted = json.loads((straight / "result.json").read_text())
    for name in ("loss", "discriminator_auc", "mlm_accuracy"):
        assert resumed[name] == uninterrupted[name]
    # Finished: run again it says the same, without training.
    assert pretrain.run(settings, tmp_path) == resumed


def test_sigterm_saves_and_the_rerun_goes_on(
    tmp_path: Path, tiny_data: Path, straight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = pretrain_settings(tiny_data, TINY_MODEL)
    with monkeypatch.context() as patch:
        at_step(patch, 4, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(
            StopRequested, match=r"stopped by SIGTERM at step \d of 8"
        ) as caught:
            pretrain.run(settings, tmp_path)
    assert caught.value.exit_status == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert not (tmp_path / "result.json").exists()
    pretrain.run(settings, tmp_path)
    assert_same_run(tmp_path, straight)


def test_a_loss_that_is_not_finite_stops_the_run_by_name(
    tmp_path: Path, tiny_data: Path
) -> None:
    settings = supernet_settings(
        tiny_data,
        [*TINY_MODEL, "optimizer.learning_rate=1e30", "run.checkpoint_every=1"],
    )
    with pytest.raises(CommandError) as caught:
        supernet.run(settings, tmp_path)
    message = str(caught.value)
    # Warm-up gives step 1 the rate 0: step 2 moves the weights far away.
    assert message.startswith("step 3 (route ")
    assert "loss is nan" in message
    saved = state(tmp_path)
    assert saved["step/.ATTRIBUTES/VARIABLE_VALUE"] <= 2
    assert caught.value.exit_status == 1
    loaded = trained_supernet.load(tmp_path)
    assert loaded.step == saved["step/.ATTRIBUTES/VARIABLE_VALUE"]


def test_both_splits_are_logged_and_drawn(straight: Path) -> None:
    wanted = {"generator_loss", "discriminator_loss", "mlm_accuracy"}
    for split, more in (("train", set()), ("validation", {"discriminator_auc"})):
        tags = set()
        for file in (straight / "tensorboard" / split).iterdir():
            for event in tf.compat.v1.train.summary_iterator(str(file)):
                tags |= {value.tag for value in event.summary.value}
        assert wanted | more <= tags
    assert (straight / "figures" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in (straight / "checkpoints").glob("*.index")) == [
        "ckpt-3.index",
        "ckpt-6.index",
        "ckpt-8.index",
    ]
    backbone = LVBertBackbone.from_preset(str(straight / "model"))
    assert backbone.architecture == "csf"


def test_the_masked_lm_objective_pretrains_a_masked_lm(
    tmp_path: Path, tiny_data: Path
) -> None:
    overrides = [*TINY_MODEL, "run.objective=mlm", "run.steps=40"]
    result = pretrain.run(pretrain_settings(tiny_data, overrides), tmp_path)
    assert result["steps"] == 40
    logged = [
        json.loads(line)
        for line in (tmp_path / "metrics.jsonl").read_text().split("\n")
        if '"train"' in line
    ]
    assert logged[-1]["loss"] < logged[0]["loss"]
    assert 0 < result["mlm_accuracy"] <= 1
    assert LVBertBackbone.from_preset(result["model"]).architecture == "csf"


def test_a_supernet_trains_in_bfloat16_with_one_trace(
    tmp_path: Path, tiny_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    original = supernet.train

    def spy(*arguments: Any) -> Any:
        outcomes.append(original(*arguments))
        return outcomes[-1]

    monkeypatch.setattr(supernet, "train", spy)
    overrides = [*TINY_MODEL, "run.precision=mixed_bfloat16", "run.steps=30"]
    try:
        result = supernet.run(supernet_settings(tiny_data, overrides), tmp_path)
    finally:
        keras.config.set_dtype_policy("float32")
    # Thirty routes, one function.
    assert [outcome.traces for outcome in outcomes] == [1]
    assert result["steps"] == 30
    assert result["examples_per_second"] > 0
    weights = state(tmp_path)
    assert all(
        value.dtype == np.float32
        for name, value in weights.items()
        if name.startswith(("model/", "optimizer/")) and value.dtype.kind == "f"
    )
    assert np.isfinite(result["loss"])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines if '"train"' in line]
    assert np.mean(losses[-8:]) < np.mean(losses[:8])
