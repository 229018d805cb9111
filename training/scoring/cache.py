"""Scores remembered on disk."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from training.scoring.score import OnScored, OnWork, Score, Scorer


class CachedScorer:
    """Remembers scores in a file of JSON lines, one for each score.

    The key is the architecture and the scorer's identity: the hash of weights, held-out
    records and masks. A line is written as soon as its score is known. Several searches
    may share a file, one after the other.

    Args:
        scorer: who is asked for what is not there yet.
        file: the cache; made if it does not exist.
        writes: whether this process adds to the file; one of several workers does.
    """

    def __init__(self, scorer: Scorer, file: Path, *, writes: bool = True) -> None:
        self._scorer = scorer
        self._file = file
        self._writes = writes
        self._known = dict(_read_scores(file, scorer.identity))
        self.hits = 0
        """How many scores came from the cache."""

    @property
    def identity(self) -> str:
        """That of the scorer."""
        return self._scorer.identity

    def score(
        self,
        candidates: Sequence[str],
        on_scored: OnScored | None = None,
        *,
        incumbents: Sequence[str] = (),
        on_work: OnWork | None = None,
    ) -> list[Score]:
        """Returns the score of each candidate, in their order."""
        new = [c for c in dict.fromkeys(candidates) if c not in self._known]
        self.hits += len(candidates) - len(new)
        if on_scored is not None:
            for candidate in candidates:
                if candidate in self._known:
                    on_scored(self._known[candidate])
        if new and self._writes:
            with self._file.open("a", encoding="utf-8") as stream:
                _end_torn_line(self._file, stream)

                def remember(score: Score) -> None:
                    line = {"identity": self.identity, **asdict(score)}
                    stream.write(json.dumps(line) + "\n")
                    stream.flush()
                    if on_scored is not None:
                        on_scored(score)

                scores = self._scorer.score(
                    new, remember, incumbents=incumbents, on_work=on_work
                )
        elif new:
            scores = self._scorer.score(
                new, on_scored, incumbents=incumbents, on_work=on_work
            )
        else:
            scores = []
        self._known |= {score.architecture: score for score in scores}
        return [self._known[candidate] for candidate in candidates]


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
