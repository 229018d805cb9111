"""``evaluate``: scores architectures with the weights they inherit from a supernet."""

import argparse
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import UsageError
from training.batches import HELD_OUT_SEED, data_identity
from training.path_losses import path_losses, unigram_entropy
from training.progress import Progress

if TYPE_CHECKING:
    from lvbert_tf import Architecture
    from training.scoring import Score
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
        default=[],
        metavar="SPEC",
        help="architecture strings or names",
    )
    parser.add_argument(
        "--random",
        type=int,
        default=0,
        metavar="N",
        help="so many random paths besides, and their losses by letter and depth",
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
    if not architectures and arguments.random < 1:
        raise UsageError("expected --architecture SPEC..., --random N, or both")
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
        random=arguments.random,
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
    random: int = 0,
) -> dict[str, Any]:
    """Scores every architecture on the same held-out records and masks.

    Args:
        supernet_dir: run directory of the supernet.
        data_dir: the data directory.
        architectures: what to score.
        batch_size: examples at once.
        examples: how many held-out examples, 0 for all.
        seed: of the masks.
        random: how many random paths to score as well.

    Returns:
        `results`, one object for each architecture: `architecture`, `accuracy`,
        `loss` (nats a token), `standard_error` of the accuracy, `masked_tokens`. With
        random paths `random_paths`, see `training.path_losses`, and in it
        `unigram_entropy` of the masked tokens.
    """
    from training import supernet
    from training.distribution import set_up
    from training.supernet_scorer import SupernetScorer

    set_up()
    trained = supernet.load(supernet_dir)
    identity = check_fits(trained, architectures, data_dir)
    named = [str(one) for one in architectures]
    drawn = _random_paths(trained, random)
    scorer = SupernetScorer(
        trained,
        dataclasses.replace(
            trained.settings.data, directory=data_dir, validation_examples=examples
        ),
        batch_size=batch_size,
        seed=seed,
        held_out_sha256=identity["held_out_sha256"],
    )
    with Progress(len(named) + len(drawn), "architectures", "evaluate") as progress:
        shown = 0

        def show(share: float) -> None:
            nonlocal shown
            done = int(share * (len(named) + len(drawn)))
            progress.update(done - shown)
            shown = done

        scores = scorer.score([*named, *drawn], on_work=show)
    result = {
        "results": [_figures(score) for score in scores[: len(named)]],
        "supernet_step": trained.step,
    }
    if drawn:
        result["random_paths"] = {
            **path_losses(
                {score.architecture: score.loss for score in scores[len(named) :]},
                trained.model.letters,
            ),
            "unigram_entropy": unigram_entropy(scorer.masked_tokens()),
        }
    return result


def _figures(score: "Score") -> dict[str, Any]:
    figures = dataclasses.asdict(score)
    del figures["eliminated"]  # nobody races here
    return figures


def _random_paths(trained: "TrainedSupernet", count: int) -> list[str]:
    from training.rank_check import draw_architectures

    if count < 1:
        return []
    model = trained.model
    drawn = draw_architectures([model.letters], model.num_layers, count, seed=0)
    return [name for name, _ in drawn]


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
