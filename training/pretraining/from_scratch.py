"""Trains architectures from scratch, as `pretrain` does, to compare them."""

import dataclasses
from pathlib import Path
from typing import Any

import keras

from training.pretraining import experiment, pretrain
from training.pretraining.experiment import PretrainExperiment, SupernetExperiment


def settings_of(
    supernet: "SupernetExperiment",
    architecture: str,
    *,
    data_dir: str,
    steps: int,
    seed: int,
    batch_size: int = 0,
    learning_rate: float = 0.0,
) -> "PretrainExperiment":
    """Returns the experiment that trains an architecture by masked language modelling.

    Args:
        supernet: whose sizes, data options and devices it takes.
        architecture: the layers.
        data_dir: what to train and to evaluate on.
        steps: the budget.
        seed: of weights, order, masks and dropout.
        batch_size: examples per step; 0 takes the supernet's.
        learning_rate: peak; 0 takes the supernet's.
    """
    base = experiment.pretrain_winner(supernet, architecture)
    rate = learning_rate or supernet.optimizer.learning_rate
    return dataclasses.replace(
        base,
        data=dataclasses.replace(base.data, directory=data_dir),
        optimizer=dataclasses.replace(
            base.optimizer,
            learning_rate=rate,
            # The same share of the run as the supernet's, at most a tenth.
            warmup_steps=min(base.optimizer.warmup_steps, steps // 10),
        ),
        run=dataclasses.replace(
            base.run,
            steps=steps,
            seed=seed,
            objective="mlm",
            batch_size=batch_size or base.run.batch_size,
            evaluate_every=0,
            log_every=max(1, steps // 10),
            checkpoint_every=max(1, steps // 2),
            keep_checkpoints=1,
        ),
    )


def train(settings: "PretrainExperiment", run_dir: Path) -> dict[str, Any]:
    """Trains, or goes on, or returns what an earlier call found.

    Returns:
        What `pretrain` gives.
    """
    keras.backend.clear_session()  # many models follow one another in this process
    return pretrain.run(settings, run_dir)
