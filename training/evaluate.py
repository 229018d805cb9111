"""``evaluate``: scores architectures with the weights they inherit from a supernet."""

import argparse
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import UsageError
from training.batches import HELD_OUT_SEED, data_identity
from training.progress import Progress

if TYPE_CHECKING:
    from lvbert_tf import Architecture
    from training.supernet import TrainedSupernet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--data", required=True, help="data directory whose held-out part scores"
    )
    parser.add_argument(
        "--architecture",
        nargs="+",
        required=True,
        metavar="SPEC",
        help="architecture strings or names",
    )
    parser.add_argument(
        "--batch-size", type=int, default=32, help="moves no score (default: 32)"
    )
    parser.add_argument(
        "--examples", type=int, default=0, help="held-out examples; 0 takes all"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=HELD_OUT_SEED,
        help="of the masks (default: those of `search` and of the validation)",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    architectures = [parse(spec) for spec in arguments.architecture]
    if arguments.batch_size < 1 or arguments.examples < 0:
        raise UsageError(
            "expected --batch-size from 1 and --examples from 0, found "
            f"{arguments.batch_size} and {arguments.examples}"
        )
    return run(
        arguments.supernet,
        arguments.data,
        architectures,
        batch_size=arguments.batch_size,
        examples=arguments.examples,
        seed=arguments.seed,
    )


def parse(spec: str) -> "Architecture":
    """Returns the architecture of a command-line argument.

    Raises:
        UsageError: if it is none.
    """
    from lvbert_tf import Architecture

    try:
        return Architecture.parse(spec)
    except ValueError as error:
        raise UsageError(f"--architecture: {error}") from error


def run(
    supernet_dir: Path,
    data_dir: str,
    architectures: Sequence["Architecture"],
    *,
    batch_size: int = 32,
    examples: int = 0,
    seed: int = HELD_OUT_SEED,
) -> dict[str, Any]:
    """Scores every architecture on the same held-out records and masks.

    Args:
        supernet_dir: run directory of the supernet.
        data_dir: the data directory.
        architectures: what to score.
        batch_size: examples at once.
        examples: how many held-out examples, 0 for all.
        seed: of the masks.

    Returns:
        `results`, one object for each architecture: `architecture`, `accuracy`,
        `loss` (nats a token), `standard_error` of the accuracy, `masked_tokens`.
    """
    from training import supernet
    from training.distribution import set_up
    from training.scoring import Score, SupernetScorer

    set_up()
    trained = supernet.load(supernet_dir)
    identity = check_fits(trained, architectures, data_dir)
    scorer = SupernetScorer(
        trained,
        dataclasses.replace(
            trained.settings.data, directory=data_dir, validation_examples=examples
        ),
        batch_size=batch_size,
        seed=seed,
        held_out_sha256=identity["held_out_sha256"],
    )
    with Progress(len(architectures), "architectures", "evaluate") as progress:

        def show(score: Score) -> None:
            progress.set(accuracy=score.accuracy)
            progress.update(1)

        scores = scorer.score([str(one) for one in architectures], show)
    return {
        "results": [dataclasses.asdict(score) for score in scores],
        "supernet_step": trained.step,
    }


def check_fits(
    trained: "TrainedSupernet", architectures: Sequence["Architecture"], data_dir: str
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
    theirs = trained.versions["data"]["vocabulary_sha256"]
    identity = data_identity(
        dataclasses.replace(trained.settings.data, directory=data_dir)
    )
    ours = identity["vocabulary_sha256"]
    if theirs != ours:
        raise UsageError(
            f"--data {data_dir}: its vocabulary (sha256 {ours[:12]}) is not the one "
            f"that the supernet was trained with (sha256 {theirs[:12]})"
        )
    return identity


def standard_error(accuracy: float, count: float) -> float:
    """Returns the standard error of a share of `count` independent tokens.

    It depends on the totals alone, so neither on batch size nor on order. Tokens of
    one example are not quite independent, which it leaves out.
    """
    return math.sqrt(accuracy * (1.0 - accuracy) / count)
