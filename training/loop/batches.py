"""Batches for the loop: the data directory's records, split over workers, with routes.

Everything is a pure function of (seed, step) for training and of the example for the
held-out set; nothing here holds a state that a checkpoint would have to save.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from training.run.devices import Distribution
from training.run.options import Data

if TYPE_CHECKING:
    import tensorflow as tf

Batch = dict[str, Any]

HELD_OUT_SEED = 0
"""Masks of the held-out set in validation, evaluation and search: the same for all."""


@dataclass(frozen=True)
class RouteSampling:
    """How a training batch gets the supernet's route.

    Attributes:
        seed: the run's seed.
        num_layers: positions, L.
        num_letters: layer types.
        method: `"uniform"` or `"fair"`.
    """

    seed: int
    num_layers: int
    num_letters: int
    method: str

    def add(self, batch: Batch) -> Batch:
        """Adds `route`, int32 (B, L), every row the route of the batch's step."""
        import tensorflow as tf

        from lvbert_tf.search.sampling import route_tensor

        route = route_tensor(
            self.seed,
            batch["step"][0],
            self.num_layers,
            self.num_letters,
            self.method,
        )
        rows = batch["step"].shape[0]
        return {**batch, "route": tf.tile(route[tf.newaxis], (rows, 1))}


def training_batches(
    data: Data,
    *,
    batch_size: int,
    seed: int,
    distribution: Distribution,
    routes: RouteSampling | None = None,
) -> Callable[[int], "tf.data.Dataset"]:
    """Returns the function from the first step to this worker's batches.

    Args:
        data: which records, how long, how masked.
        batch_size: examples of the global batch.
        seed: the run's seed.
        distribution: this process's place among the workers.
        routes: for the supernet, how to draw routes.
    """
    from training.data.records import training_dataset
    from training.data.verification import ensure_verified

    def batches(first_step: int) -> "tf.data.Dataset":
        ensure_verified(data.directory, "train")
        dataset = training_dataset(
            data.directory,
            batch_size=batch_size,
            sequence_length=data.sequence_length,
            seed=seed,
            first_step=first_step,
            mask_probability=data.mask_probability,
            num_input_pipelines=distribution.num_workers,
            input_pipeline_id=distribution.worker,
        )
        if routes is not None:
            dataset = dataset.map(routes.add)
        return dataset.prefetch(2)

    return batches


def held_out_batches(
    data: Data,
    *,
    batch_size: int,
    distribution: Distribution,
    routes: Sequence[Sequence[int]] | None = None,
    seed: int = HELD_OUT_SEED,
) -> "tf.data.Dataset":
    """Returns this worker's rows of the held-out batches, all of one static shape.

    The last batch is filled up with rows of padding that count nowhere.

    Args:
        data: which records.
        batch_size: examples of the global batch.
        distribution: this process's place among the workers.
        routes: for the supernet, the paths to evaluate on: the whole set is gone
            through once for each.
        seed: of the masks.
    """
    from training.data.records import held_out_dataset
    from training.data.verification import ensure_verified

    ensure_verified(data.directory, "held_out")
    dataset = held_out_dataset(
        data.directory,
        batch_size=batch_size,
        sequence_length=data.sequence_length,
        seed=seed,
        mask_probability=data.mask_probability,
        max_examples=data.validation_examples or None,
        num_input_pipelines=distribution.num_workers,
        input_pipeline_id=distribution.worker,
    )
    if routes is not None:
        dataset = _repeated_for(dataset, routes, batch_size // distribution.num_workers)
    return dataset.prefetch(2)


def data_identity(data: Data) -> dict[str, str]:
    """Returns what tells one data directory from another, for the run directory.

    Raises:
        UsageError: if it is no data directory.
    """
    from training.data.manifest import DataManifest

    manifest = DataManifest.load(data.directory)
    identity = {"vocabulary_sha256": manifest.vocabulary_sha256}
    for split in ("train", "held_out"):
        hashes = "".join(shard.sha256 for shard in manifest.split(split))
        identity[f"{split}_sha256"] = hashlib.sha256(hashes.encode()).hexdigest()
    return identity


def _repeated_for(
    dataset: "tf.data.Dataset", routes: Sequence[Sequence[int]], rows: int
) -> "tf.data.Dataset":
    import numpy as np
    import tensorflow as tf

    table = tf.data.Dataset.from_tensor_slices(np.asarray(routes, np.int32))
    return table.flat_map(
        lambda route: dataset.map(
            lambda batch: {**batch, "route": tf.tile(route[tf.newaxis], (rows, 1))}
        )
    )
