"""A whole search with shared prefixes against scoring candidates one by one.

The paper's settings and small size, over some batches of held-out text. Of every
generation a few candidates are also scored one by one, by the same compiled model as
one graph, in turn with the others, so that a busy machine slows both alike.
"""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search_supernet import supernet_and_data

BATCH_SIZE, BATCHES = 16, 1
ALONE_PER_GENERATION = 3


class Interleaved:
    """Scores with shared prefixes, and some candidates alone as well."""

    def __init__(self, shared: Any, alone: Any) -> None:
        self._shared, self._alone = shared, alone
        self._draw = np.random.default_rng(0)
        self.identity = shared.identity
        self.shared_seconds = self.alone_seconds = 0.0
        self.shared_count = self.alone_count = self.unequal = 0
        self.per_generation: list[float] = []

    def score(
        self,
        candidates: Sequence[str],
        on_scored: Any = None,
        *,
        incumbents: Sequence[str] = (),
        on_work: Any = None,
    ) -> Any:
        """Scores all, then a sample alone."""
        start = time.perf_counter()
        scores = self._shared.score(candidates, incumbents=incumbents, on_work=on_work)
        spent = time.perf_counter() - start
        self.shared_seconds += spent
        self.shared_count += len(candidates)
        self.per_generation.append(spent / len(candidates))
        chosen = self._draw.choice(len(candidates), ALONE_PER_GENERATION, replace=False)
        start = time.perf_counter()
        alone = self._alone.score([candidates[i] for i in chosen])
        self.alone_seconds += time.perf_counter() - start
        self.alone_count += len(chosen)
        self.unequal += sum(
            scores[i] != one for i, one in zip(chosen, alone, strict=True)
        )
        return scores


def run() -> dict[str, Any]:
    """Searches, and compares candidates per minute."""
    from lvbert_tf.search.evolution import EvolutionSearch
    from lvbert_tf.search.space import SearchSpace
    from training.pretraining import trained_supernet
    from training.run.devices import set_up
    from training.scoring.supernet_scorer import SupernetScorer
    from training.search.log import SearchLog
    from training.search.loop import search_on

    run_dir, data = supernet_and_data()
    set_up()
    trained = trained_supernet.load(run_dir)
    held_out = dataclasses.replace(
        trained.settings.data,
        directory=str(data),
        validation_examples=BATCH_SIZE * BATCHES,
    )

    def scorer(share_prefixes: bool) -> SupernetScorer:
        return SupernetScorer(
            trained,
            held_out,
            batch_size=BATCH_SIZE,
            seed=0,
            held_out_sha256="benchmark",
            share_prefixes=share_prefixes,
        )

    shared, alone = scorer(True), scorer(False)
    model = trained.settings.model
    space = SearchSpace(model.letters, model.num_layers)
    warm_up = space.sample(np.random.default_rng(1))
    shared.score([warm_up])
    alone.score([warm_up])
    shared.walk.layer_evaluations = 0
    both = Interleaved(shared, alone)
    search = EvolutionSearch(space, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        log = SearchLog(Path(folder))
        log.resume(search)
        spent = search_on(search, both, log)
    outside = spent["seconds"] - spent["scoring_seconds"]
    per_minute = {
        "shared": 60 * both.shared_count / both.shared_seconds,
        "one_by_one": 60 * both.alone_count / both.alone_seconds,
    }
    layers = model.num_layers * both.shared_count * shared.num_batches
    return {
        "candidates": both.shared_count,
        "candidates_per_minute": per_minute,
        "times_as_many": per_minute["shared"] / per_minute["one_by_one"],
        "layer_evaluations": shared.walk.layer_evaluations,
        "layer_evaluations_one_by_one": layers,
        "times_fewer_layers": layers / shared.walk.layer_evaluations,
        "most_states_of_a_path": shared.walk.most_states,
        "share_outside_scoring": outside / (outside + both.shared_seconds),
        "compared": both.alone_count,
        "unequal_scores": both.unequal,
        "traces": shared.traces,
        "num_batches": shared.num_batches,
        "batch_size": BATCH_SIZE,
    }
