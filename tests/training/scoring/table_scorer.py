"""A scorer without a supernet."""

from collections.abc import Sequence

from training.scoring.score import OnScored, OnWork, Score


class TableScorer:
    """Scores by a rule; counts what it is asked."""

    def __init__(self, identity: str = "table") -> None:
        self.identity = identity
        self.asked: list[str] = []

    def score(
        self,
        candidates: Sequence[str],
        on_scored: OnScored | None = None,
        *,
        incumbents: Sequence[str] = (),
        on_work: OnWork | None = None,
    ) -> list[Score]:
        scores = []
        for candidate in candidates:
            self.asked.append(candidate)
            accuracy = (1 + candidate.count("c")) / 10
            loss = 1 / accuracy
            scores.append(Score(candidate, accuracy, loss, 0.01, 1000, accuracy, loss))
            if on_scored is not None:
                on_scored(scores[-1])
        return scores
