"""A checkpoint that lacks variables is refused, whatever they belong to."""

from pathlib import Path

import keras
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


def test_a_checkpoint_with_fewer_optimizer_variables_is_refused(tmp_path: Path) -> None:
    keras.backend.clear_session()
    _checkpoints(tmp_path, keras.optimizers.SGD(0.1)).save()
    keras.backend.clear_session()
    with pytest.raises(CommandError, match="cannot restore this checkpoint"):
        _checkpoints(tmp_path, keras.optimizers.SGD(0.1, momentum=0.9)).restore()
    keras.backend.clear_session()
    _checkpoints(tmp_path, keras.optimizers.SGD(0.1)).restore()
