"""The loop of a search: ask, score, tell, write."""

import time
from collections.abc import Callable, Sequence

from lvbert_tf.search.evolution import EvolutionSearch, Search
from training.run.progress import Progress
from training.run.signals import StopRequested, StopSignals
from training.scoring.score import LOSS_DIGITS, Score, Scorer, fitness_of
from training.search.log import SearchLog
from training.search.regression import fit

SUGGEST_FROM = 50
"""Scored candidates from which on the regression suggests one each generation."""


def search_on(
    search: "Search",
    scorer: "Scorer",
    log: "SearchLog",
    *,
    label: str = "",
    suggest: bool = False,
    on_generation: Callable[[Sequence[Score]], None] | None = None,
    layer_evaluations: Callable[[], int] = lambda: 0,
) -> None:
    """Asks, scores and tells until the search ends; writes every generation.

    Args:
        search: where to go on.
        scorer: scores each generation.
        log: where everything is written.
        label: before the progress bar.
        suggest: add the best string of the regression to each generation.
        on_generation: told the scores of each generation.
        layer_evaluations: how many the scorer has made so far.

    Raises:
        StopRequested: if the user or the system stopped it; the generation that was
            being scored is scored again when the search goes on.
    """
    started = time.monotonic()
    scoring, evaluated = 0.0, layer_evaluations()
    with (
        StopSignals() as signals,
        Progress(
            expected_evaluations(search),
            "candidates",
            label or f"{search.method} search",
            initial=search.evaluations,
        ) as progress,
    ):
        try:
            while True:
                suggestions = _suggestions(search, log) if suggest else []
                generation = search.ask(suggestions)
                if not generation:
                    break
                origins = search.pending
                work = _Work(progress, len(generation))

                def on_work(share: float, work: "_Work" = work) -> None:
                    work.done(share)
                    signals.check()

                asked = time.monotonic()
                scores = scorer.score(
                    generation,
                    incumbents=[c.architecture for c in search.top],
                    on_work=on_work,
                )
                scoring += time.monotonic() - asked
                work.done(1.0)
                signals.check()
                summary = search.tell(
                    {s.architecture: fitness_of(s, log.fitness) for s in scores},
                    {s.architecture: round(s.loss, LOSS_DIGITS) for s in scores},
                )
                spent = {
                    "seconds": time.monotonic() - started,
                    "scoring_seconds": scoring,
                    "layer_evaluations": layer_evaluations() - evaluated,
                }
                line = log.append(search, summary, scores, origins, spent)
                progress.set(best=line["best"], top=line["top_mean"])
                progress.note(
                    f"iteration {summary.iteration}: best {log.fitness} "
                    f"{line['best']:.4f} {summary.best_architecture}, mean "
                    f"{line['mean']:.4f}, mean of the top {len(search.top)} "
                    f"{line['top_mean']:.4f}, new {summary.new}, repeated "
                    f"{summary.repeated}"
                )
                if on_generation is not None:
                    on_generation(scores)
        except StopRequested as stop:
            stop.explain(
                f"stopped by {stop.signal} in iteration {search.iteration + 1}; run "
                "the same command again to go on"
            )
            raise


def expected_evaluations(search: "Search") -> int:
    """Returns how many candidates the search will have scored in the end."""
    later = search.population
    if isinstance(search, EvolutionSearch):
        later = search.crossover + search.mutation
    total = search.population + (search.iterations - 1) * later
    return min(total, search.space.size)


class _Work:
    """Turns shares of a generation's work into whole candidates of the progress."""

    def __init__(self, progress: Progress, candidates: int) -> None:
        self._progress = progress
        self._candidates = candidates
        self._shown = 0

    def done(self, share: float) -> None:
        """Shows that so much of the generation is done."""
        candidates = int(share * self._candidates)
        self._progress.update(candidates - self._shown)
        self._shown = candidates


def _suggestions(search: "Search", log: "SearchLog") -> list[str]:
    scores = list(log.scores.values())
    if len(scores) < SUGGEST_FROM or search.pending:
        return []
    model = fit(
        {score.architecture: fitness_of(score, log.fitness) for score in scores},
        search.space.letters,
        {score.architecture: float(score.masked_tokens) for score in scores},
    )
    return [model.best(search.space)]
