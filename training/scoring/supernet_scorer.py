"""Scores candidates with the weights that they inherit from a supernet.

All candidates see the same held-out records with the same masks, without dropout; they
are computed batch by batch, all on one batch before the next, so that they share work.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from common.hashes import content_sha256, weights_sha256
from training.loop.batches import held_out_batches
from training.loop.unigram_loss import held_out_unigram_loss
from training.pretraining.trained_supernet import TrainedSupernet
from training.run.devices import Distribution
from training.run.options import Data
from training.scoring.path_functions import PathFunctions
from training.scoring.prefix_walk import PrefixWalk, StateMemory
from training.scoring.score import SUMS, OnScored, OnWork, Score, score_of
from training.scoring.worker_sums import WorkerSums

Batch = dict[str, Any]

STATE_MEMORY_BYTES = 1 << 30
"""For hidden states of the best candidates that are kept between generations."""

_MAX_BATCHES_IN_MEMORY = 1 << 30  # bytes
_MAX_THREADS = 4
_FIGURES = 2
"""What the figures of a score mean; 1: of all predicted positions."""


class SupernetScorer:
    """Scores with the weights that a candidate inherits from the supernet.

    The letters are data for a few traced functions: nothing is compiled per candidate.
    Sums of examples are taken in double precision on the host, so that the score of a
    candidate does not depend on which others are scored with it, nor on their order.

    Args:
        trained: the supernet.
        data: the held-out records, their length and masking.
        batch_size: examples at once; moves a score by rounding of the loss at most.
        seed: of the masks.
        held_out_sha256: hash of the held-out records.
        distribution: the devices; the batches are split over them. By default one.
        share_prefixes: compute what candidates have in common once; otherwise each
            by itself, for comparison.
        state_memory_bytes: for states of the best candidates.
        threads: that walk over the candidates; 0 chooses.
    """

    def __init__(
        self,
        trained: "TrainedSupernet",
        data: "Data",
        *,
        batch_size: int,
        seed: int,
        held_out_sha256: str,
        distribution: "Distribution | None" = None,
        share_prefixes: bool = True,
        state_memory_bytes: int = STATE_MEMORY_BYTES,
        threads: int = 0,
    ) -> None:
        if distribution is None:
            distribution = Distribution(tf.distribute.get_strategy())
        distribution.check_batch_size(batch_size)
        self._model = trained.model
        own_rows = held_out_batches(
            data, batch_size=batch_size, distribution=distribution, seed=seed
        )
        self._num_batches = int(own_rows.cardinality())
        self._batches = distribution.distribute(own_rows)
        self._stream: Iterator[Batch] | None = None
        self._next = 0
        self._kept: list[Batch] = []
        self._room = _MAX_BATCHES_IN_MEMORY
        self.functions = PathFunctions(trained.model, distribution)
        self.walk = PrefixWalk(
            self.functions,
            StateMemory(state_memory_bytes, self._num_batches),
            threads or _threads(distribution),
        )
        self._share_prefixes = share_prefixes
        self._sums = WorkerSums(distribution)
        self._data, self._seed = data, seed
        self._identity = content_sha256(
            {
                "weights_sha256": weights_sha256(trained.model.weights),
                "held_out_sha256": held_out_sha256,
                "mask_seed": seed,
                "mask_probability": data.mask_probability,
                "sequence_length": data.sequence_length,
                "examples": data.validation_examples,
                "figures": _FIGURES,
            }
        )

    @property
    def identity(self) -> str:
        """Hash of weights, records, masks."""
        return self._identity

    @property
    def num_batches(self) -> int:
        """How many batches the held-out set has."""
        return self._num_batches

    @property
    def traces(self) -> int:
        """How many traces there are, which does not depend on what is scored."""
        return self.functions.traces

    def score(
        self,
        candidates: Sequence[str],
        on_scored: OnScored | None = None,
        *,
        incumbents: Sequence[str] = (),
        on_work: OnWork | None = None,
    ) -> list[Score]:
        """Returns the score of each candidate, in their order.

        Raises:
            ValueError: if a candidate is not a path of the supernet.
            CommandError: if nothing is masked, or a loss is not finite.
        """
        self._check(candidates)
        totals = np.zeros((len(candidates), len(SUMS)))
        for index in range(self._num_batches):
            # Who leads so far is likely to be a parent of the next generation.
            order = np.argsort(totals[:, 0], kind="stable")
            leading = [candidates[i] for i in order[: len(incumbents)]]
            keep = [*incumbents, *leading] if index else incumbents
            totals += self._local_rows(index, candidates, keep).sum(axis=2)
            if on_work is not None:
                on_work((index + 1) / self._num_batches)
        totals = self._sums.total(totals)
        scores = [
            score_of(candidate, total)
            for candidate, total in zip(candidates, totals.tolist(), strict=True)
        ]
        for score in scores:
            if on_scored is not None:
                on_scored(score)
        return scores

    def rows(
        self, index: int, candidates: Sequence[str], keep: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """Returns the sums of each example of a batch; see `RowScorer`."""
        self._check(candidates)
        return self._sums.gather(self._local_rows(index, candidates, keep))

    def unigram_loss(self) -> float:
        """Returns the loss of the training text's token frequencies at [MASK]."""
        return held_out_unigram_loss(self._data, self._seed)

    def _check(self, candidates: Sequence[str]) -> None:
        for candidate in candidates:
            self._model.check_architecture(candidate)

    def _local_rows(
        self, index: int, candidates: Sequence[str], keep: Sequence[str]
    ) -> NDArray[np.float64]:
        """The rows of a batch that this worker holds: (candidates, 6, rows)."""
        batch = self._batch(index)
        if self._share_prefixes:
            rows = self.walk(index, batch, candidates, keep)
        else:
            rows = [self.functions.whole(c, batch) for c in candidates]
        return np.stack(rows)

    def _batch(self, index: int) -> Batch:
        """A batch; from memory after the first time, if it had room there."""
        if index < len(self._kept):
            return self._kept[index]
        if self._stream is None or index < self._next:
            self._stream, self._next = iter(self._batches), 0
        while True:
            batch = next(self._stream)
            self._next += 1
            if self._next - 1 == len(self._kept) and self._room > 0:
                self._room -= sum(
                    self.functions.state_bytes(tensor) for tensor in batch.values()
                )
                self._kept.append(batch)
            if self._next > index:
                return batch


def _threads(distribution: "Distribution") -> int:
    """Several on one CPU; one where devices or workers must act in the same order."""
    if distribution.num_replicas > 1 or tf.config.list_physical_devices("GPU"):
        return 1
    return min(_MAX_THREADS, len(os.sched_getaffinity(0)))
