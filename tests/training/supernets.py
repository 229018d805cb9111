"""Run directories of small supernets that nobody had to train, for tests."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LETTERS = "csf"
NUM_LAYERS = 4


def make_supernet_run(
    run_dir: Path, data: Path, *, letters: str = LETTERS, num_layers: int = NUM_LAYERS
) -> Path:
    """Writes what the command ``supernet`` would leave, with wide random weights.

    Weights that wide make candidates predict different tokens, and a bias towards
    frequent ones makes them hit some: their scores differ as those of trained ones do.
    """
    import tensorflow as tf

    from training.data.manifest import DataManifest
    from training.loop.batches import data_identity
    from training.loop.checkpoint_variables import by_path
    from training.pretraining import experiment, trained_supernet
    from training.pretraining.stage import compile_model, write_preset
    from training.run.directory import RunDirectory

    settings = experiment.load_supernet(
        None,
        [
            f"data.directory={data}",
            "data.sequence_length=16",
            f"model.letters={letters}",
            f"model.num_layers={num_layers}",
            "model.embedding_dim=8",
            "model.hidden_dim=16",
            "model.intermediate_dim=32",
            "model.num_heads=2",
            "model.max_sequence_length=16",
            "optimizer.warmup_steps=1",
            "run.steps=5",
        ],
    )
    manifest = DataManifest.load(data)
    table_size = manifest.vocabulary_size
    model = trained_supernet.build(settings.model, table_size)
    generator = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:  # a wide bias would decide every prediction
            noise = generator.normal(scale=0.7, size=variable.shape)
            variable.assign(variable.numpy() + noise.astype("float32"))
    (bias,) = [v for v in model.trainable_variables if v.shape == (table_size,)]
    bias.assign(_frequent(data, table_size))
    directory = RunDirectory.open(
        run_dir, experiment.to_toml(settings), data_identity(settings.data)
    )
    compile_model(model, settings.optimizer, settings.run)
    checkpoint = tf.train.Checkpoint(  # what the loop puts into one
        model=by_path(model.weights),
        optimizer=by_path(model.optimizer.variables),
        step=tf.Variable(5, dtype=tf.int64),
        loop=tf.Variable("{}", dtype=tf.string, trainable=False),
    )
    tf.train.CheckpointManager(checkpoint, str(directory.checkpoints), 1).save(5)
    write_preset(model, manifest.tokenizer(), settings, directory.path / "model")
    directory.close()
    weights = {weight.path: weight.numpy() for weight in model.weights}
    np.savez(run_dir / "weights.npz", **weights)
    return run_dir


def saved_weights(run_dir: Path) -> dict[str, NDArray[np.float32]]:
    """Returns the weights that `make_supernet_run` gave the supernet."""
    with np.load(run_dir / "weights.npz") as content:
        return dict(content)


def _frequent(data: Path, table_size: int) -> NDArray[np.float64]:
    """Returns a bias (V,) that favours the tokens that are masked most."""
    from training.data.records import held_out_dataset

    counts = np.zeros(table_size)
    for batch in held_out_dataset(data, batch_size=8, sequence_length=16, seed=0):
        np.add.at(counts, batch["mask_ids"], batch["mask_weights"])
    return np.where(counts >= np.sort(counts)[-8], 20.0, 0.0)
