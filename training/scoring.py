"""Scores of architectures with weights inherited from a supernet, cached on disk.

A `Scorer` answers how good candidates are. `SupernetScorer` asks the supernet, on the
same held-out records with the same masks for every candidate and without dropout;
`CachedScorer` remembers its answers in a file. The search knows only the protocol.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from command_line import CommandError
from training.evaluate import standard_error

if TYPE_CHECKING:
    from training.experiment import Data
    from training.supernet import TrainedSupernet

Batch = dict[str, Any]

_MAX_BATCHES_IN_MEMORY = 1 << 30  # bytes


@dataclass(frozen=True)
class Score:
    """How well one architecture predicts the masked tokens of the held-out set.

    Attributes:
        architecture: its letters.
        accuracy: share of the masked tokens predicted right.
        loss: mean cross-entropy, nats per masked token.
        standard_error: of the accuracy.
        masked_tokens: how many were predicted.
    """

    architecture: str
    accuracy: float
    loss: float
    standard_error: float
    masked_tokens: int


OnScored = Callable[[Score], None]
"""Called with each score as it becomes known."""


class Scorer(Protocol):
    """Scores candidates; equal identities mean equal scores."""

    @property
    def identity(self) -> str:
        """Hash of all that a score depends on, apart from the architecture."""

    def score(
        self, candidates: Sequence[str], on_scored: OnScored | None = None
    ) -> list[Score]:
        """Returns the score of each candidate, in their order."""


class SupernetScorer:
    """Scores with the weights that a candidate inherits from the supernet.

    The route is data for one traced `test_step`: nothing is compiled per candidate.
    Sums are taken in double precision on the host, batch by batch, so that the score of
    a candidate does not depend on which others are scored with it, nor on their order.

    Args:
        trained: the supernet.
        data: the held-out records, their length and masking.
        batch_size: examples at once; moves a score by rounding of the loss at most.
        seed: of the masks.
        held_out_sha256: hash of the held-out records.
    """

    def __init__(
        self,
        trained: "TrainedSupernet",
        data: "Data",
        *,
        batch_size: int,
        seed: int,
        held_out_sha256: str,
    ) -> None:
        import tensorflow as tf

        from training.batches import held_out_batches
        from training.distribution import Distribution

        self._trained = trained
        self._batch_size = batch_size
        self._batches: Iterable[Batch] = held_out_batches(
            data,
            batch_size=batch_size,
            distribution=Distribution(tf.distribute.get_strategy()),
            seed=seed,
        )
        self._kept: list[Batch] | None = None
        self._identity = _digest(
            {
                "weights_sha256": weights_sha256(trained.model),
                "held_out_sha256": held_out_sha256,
                "mask_seed": seed,
                "mask_probability": data.mask_probability,
                "sequence_length": data.sequence_length,
                "examples": data.validation_examples,
            }
        )

    @property
    def identity(self) -> str:
        """Hash of weights, records, masks."""
        return self._identity

    @property
    def traces(self) -> int:
        """How often the scoring function was traced: once, however much is scored."""
        count: int = self._trained.test_step.experimental_get_tracing_count()  # type: ignore[attr-defined]
        return count

    def score(
        self, candidates: Sequence[str], on_scored: OnScored | None = None
    ) -> list[Score]:
        """Returns the score of each candidate, in their order.

        Raises:
            ValueError: if a candidate is not a path of the supernet.
            CommandError: if nothing is masked, or a loss is not finite.
        """
        scores = []
        for candidate in candidates:
            scores.append(self._score(candidate))
            if on_scored is not None:
                on_scored(scores[-1])
        return scores

    def _score(self, candidate: str) -> Score:
        import numpy as np
        import tensorflow as tf

        from training.supernet import masked_lm_figures

        letters = self._trained.model.route(candidate)
        route = tf.constant(np.tile(letters, (self._batch_size, 1)), tf.int32)
        sums = {"loss_sum": 0.0, "correct": 0.0, "masked_tokens": 0.0}
        for batch in self._held_out():
            totals = self._trained.test_step({**batch, "route": route})
            for name in sums:
                sums[name] += float(totals[name])
        figures = masked_lm_figures(sums)
        if not np.isfinite(figures["loss"]):
            raise CommandError(
                f"the loss of {candidate} is {figures['loss']}: the supernet's weights "
                "are damaged, or its training diverged"
            )
        return Score(
            architecture=candidate,
            accuracy=figures["accuracy"],
            loss=figures["loss"],
            standard_error=standard_error(
                figures["accuracy"], figures["masked_tokens"]
            ),
            masked_tokens=int(figures["masked_tokens"]),
        )

    def _held_out(self) -> Iterable[Batch]:
        """The batches; from memory after the first time, if they have room there."""
        if self._kept is not None:
            return self._kept
        kept: list[Batch] = []
        size = 0
        for batch in self._batches:
            size += sum(tensor.shape.num_elements() * 4 for tensor in batch.values())
            if size > _MAX_BATCHES_IN_MEMORY:
                return self._batches
            kept.append(batch)
        self._kept = kept
        return kept


class CachedScorer:
    """Remembers scores in a file of JSON lines, one for each score.

    A line is written when its score is known, so that a process that is killed loses
    the score it was working on and no other. Several searches may share a file, one
    after the other.

    Args:
        scorer: who is asked for what is not there yet.
        file: the cache; made if it does not exist.
    """

    def __init__(self, scorer: Scorer, file: Path) -> None:
        self._scorer = scorer
        self._file = file
        self._known = dict(_read_scores(file, scorer.identity))
        self.hits = 0
        """How many scores came from the cache."""

    @property
    def identity(self) -> str:
        """That of the scorer."""
        return self._scorer.identity

    def score(
        self, candidates: Sequence[str], on_scored: OnScored | None = None
    ) -> list[Score]:
        """Returns the score of each candidate, in their order."""
        new = [c for c in dict.fromkeys(candidates) if c not in self._known]
        self.hits += len(candidates) - len(new)
        if on_scored is not None:
            for candidate in candidates:
                if candidate in self._known:
                    on_scored(self._known[candidate])
        if new:
            with self._file.open("a", encoding="utf-8") as stream:
                _end_torn_line(self._file, stream)

                def remember(score: Score) -> None:
                    line = {"identity": self.identity, **asdict(score)}
                    stream.write(json.dumps(line) + "\n")
                    stream.flush()
                    if on_scored is not None:
                        on_scored(score)

                for score in self._scorer.score(new, remember):
                    self._known[score.architecture] = score
        return [self._known[candidate] for candidate in candidates]


def weights_sha256(model: Any) -> str:
    """Returns the hash of a model's weights: variable paths and bytes, sorted."""
    digest = hashlib.sha256()
    for variable in sorted(model.weights, key=lambda variable: variable.path):
        digest.update(variable.path.encode())
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_scores(file: Path, identity: str) -> Iterable[tuple[str, Score]]:
    if not file.exists():
        return
    for line in file.read_text("utf-8").splitlines():
        try:
            content = json.loads(line)
            if content.pop("identity") != identity:
                continue
            score = Score(**content)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a torn line is what a killed process leaves: score again
        yield score.architecture, score


def _end_torn_line(file: Path, stream: Any) -> None:
    content = file.read_bytes()
    if content and not content.endswith(b"\n"):
        stream.write("\n")
