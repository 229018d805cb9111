"""What a search reads beside its supernet, and refuses."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import UsageError

if TYPE_CHECKING:
    from training.experiment import SupernetExperiment


def check_data(
    directory: str,
    supernet: "SupernetExperiment",
    trained_on: Mapping[str, str],
) -> dict[str, str]:
    """Refuses data that the supernet cannot be judged on; returns the data's hashes.

    Args:
        directory: the data directory whose held-out part is to score.
        supernet: the supernet's configuration.
        trained_on: hashes of what it was trained on.

    Raises:
        UsageError: if the vocabulary is another one, or the held-out set shares text
            with the supernet's training data.
    """
    from training.batches import data_identity
    from training.held_out_overlap import check_held_out

    identity = data_identity(dataclasses.replace(supernet.data, directory=directory))
    if identity["vocabulary_sha256"] != trained_on["vocabulary_sha256"]:
        raise UsageError(
            f"--data {directory}: its vocabulary (sha256 "
            f"{identity['vocabulary_sha256'][:12]}) is not the one that the supernet "
            f"was trained with (sha256 {trained_on['vocabulary_sha256'][:12]})"
        )
    check_held_out(directory, supernet.data.directory, dict(trained_on))
    return identity


def other_iterations(run_dirs: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """Returns the iteration lines of other searches, by name, for the picture.

    Raises:
        UsageError: if one is no search, or has no iteration yet.
    """
    from training.search_log import LOG_FILE, read_log

    found = {}
    for run_dir in run_dirs:
        lines = [
            line for line in read_log(run_dir / LOG_FILE) if line["kind"] == "iteration"
        ]
        if not lines:
            raise UsageError(f"--compare {run_dir}: its search has no iteration yet")
        found[run_dir.name] = lines
    return found
