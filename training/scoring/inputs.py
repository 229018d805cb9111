"""What scores may be computed on: data that fit a supernet."""

import dataclasses
from collections.abc import Mapping, Sequence

from common.command_line import UsageError
from lvbert_tf import Architecture
from training.loop.batches import data_identity
from training.pretraining.experiment import SupernetExperiment
from training.pretraining.trained_supernet import TrainedSupernet
from training.scoring.held_out_overlap import check_held_out


def check_fits(
    trained: TrainedSupernet, architectures: Sequence[Architecture], data_dir: str
) -> dict[str, str]:
    """Refuses what the supernet cannot score; returns the hashes of the data.

    Raises:
        UsageError: if an architecture has another length or other letters, or the
            data another vocabulary, than the supernet was trained with.
    """
    for architecture in architectures:
        try:
            trained.model.check_architecture(architecture)
        except ValueError as error:
            raise UsageError(f"--architecture: {error}") from error
    return _identity(data_dir, trained.settings, trained.versions["data"])


def check_data(
    directory: str,
    supernet: SupernetExperiment,
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
    identity = _identity(directory, supernet, trained_on)
    check_held_out(directory, supernet.data.directory, dict(trained_on))
    return identity


def _identity(
    directory: str, supernet: SupernetExperiment, trained_on: Mapping[str, str]
) -> dict[str, str]:
    """Returns the hashes of data with the vocabulary that a supernet was trained with.

    Raises:
        UsageError: if the vocabulary is another one.
    """
    identity = data_identity(dataclasses.replace(supernet.data, directory=directory))
    theirs, ours = trained_on["vocabulary_sha256"], identity["vocabulary_sha256"]
    if theirs != ours:
        raise UsageError(
            f"--data {directory}: its vocabulary (sha256 {ours[:12]}) is not the one "
            f"that the supernet was trained with (sha256 {theirs[:12]})"
        )
    return identity
