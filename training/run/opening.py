"""How a run begins: its directory and its devices."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.run.devices import Distribution, place_in_cluster, set_up
from training.run.directory import RunDirectory
from training.run.options import Run


def open_run(
    path: Path, config_toml: str, identity: Mapping[str, Any], run: Run
) -> RunDirectory:
    """Opens the run's directory, for this worker if there are several."""
    worker = place_in_cluster()[0] if run.strategy == "multi_worker" else 0
    return RunDirectory.open(path, config_toml, identity, worker)


def prepare_devices(run: Run) -> Distribution:
    """Sets TensorFlow up as the run wants it.

    Raises:
        UsageError: if the batch does not split over the devices.
    """
    distribution = set_up(
        strategy=run.strategy,
        logical_cpus=run.logical_cpus,
        deterministic=run.deterministic,
        precision=run.precision,
        seed=run.seed,
    )
    distribution.check_batch_size(run.batch_size)
    return distribution
