"""A checkpoint that lacks variables is refused, whatever they belong to."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from common.command_line import CommandError
from training.loop.checkpoints import Checkpoints, LoopState
from training.run.devices import Distribution
from training.run.directory import RunDirectory


def _checkpoints(path: Path, optimizer: keras.optimizers.Optimizer) -> Checkpoints:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.optimizer = optimizer
    optimizer.build(model.trainable_variables)
    directory = RunDirectory(path)
    step = tf.Variable(3, dtype=tf.int64)
    return Checkpoints(
        model,
        1,
        directory,
        Distribution(tf.distribute.get_strategy()),
        step,
        LoopState(),
    )


def _momentum() -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def test_a_checkpoint_with_fewer_optimizer_variables_is_refused_or_reset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keras.backend.clear_session()
    first = _checkpoints(tmp_path, keras.optimizers.SGD(0.1))
    first.save()
    weights = first._model.get_weights()
    keras.backend.clear_session()
    with pytest.raises(CommandError, match="--reset-optimizer"):
        _checkpoints(tmp_path, _momentum()).restore()
    keras.backend.clear_session()
    again = _checkpoints(tmp_path, _momentum())
    again.restore(reset_optimizer=True)
    assert "begins anew at step 3" in capsys.readouterr().err
    assert np.array_equal(again._model.get_weights()[0], weights[0])
    assert int(again._model.optimizer.iterations.numpy()) == 3
    assert float(again._model.optimizer.learning_rate.numpy()) == pytest.approx(0.1)
    keras.backend.clear_session()
    whole = _checkpoints(tmp_path, keras.optimizers.SGD(0.1))
    whole.restore()
    assert np.array_equal(whole._model.get_weights()[0], weights[0])


def test_a_checkpoint_with_more_optimizer_variables_is_refused(tmp_path: Path) -> None:
    keras.backend.clear_session()
    _checkpoints(tmp_path, _momentum()).save()
    keras.backend.clear_session()
    with pytest.raises(CommandError, match="--reset-optimizer"):
        _checkpoints(tmp_path, keras.optimizers.SGD(0.1)).restore()
