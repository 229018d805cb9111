"""Races against scoring everything: the same top k from fewer tokens."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from command_line import CommandError
from lvbert_tf.search.evolution import EvolutionSearch, Search
from lvbert_tf.search.space import SearchSpace
from training.scoring.racing import RacingScorer
from training.scoring.score import Score

BATCHES, ROWS, TOKENS = 16, 32, 10


class TableRows:
    """Examples drawn once for each candidate: a rule, and luck that all share."""

    identity = "table"
    num_batches = BATCHES

    def __init__(self, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        self._ease = draw.normal(size=(BATCHES * ROWS, TOKENS))
        self._worth = draw.normal(scale=0.12, size=(8, 3))
        self.asked: list[tuple[int, tuple[str, ...]]] = []

    def rows(
        self, number: int, candidates: Sequence[str], keep: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        self.asked.append((number, tuple(candidates)))
        return np.stack([self._whole(candidate) for candidate in candidates])[
            :, :, number * ROWS : (number + 1) * ROWS
        ]

    def _whole(self, candidate: str) -> NDArray[np.float64]:
        codes = ["csf".index(letter) for letter in candidate]
        skill = sum(self._worth[i, code] for i, code in enumerate(codes)) - 1.0
        own = np.random.default_rng(codes).normal(scale=0.3, size=self._ease.shape)
        correct = (self._ease + own + skill > 0).sum(axis=1)
        masked = np.stack([-correct, correct, np.full(len(correct), TOKENS)])
        return np.concatenate([masked, masked]).astype(float)

    def full(self, candidates: Sequence[str]) -> dict[str, float]:
        return {
            c: float(self._whole(c)[1].sum() / (BATCHES * ROWS * TOKENS))
            for c in candidates
        }


def racing(table: TableRows, top_k: int) -> RacingScorer:
    return RacingScorer(table, top_k, generations=8, fitness="accuracy")


def new_search(seed: int) -> Search:
    return EvolutionSearch(SearchSpace("csf", 8), seed=seed, iterations=8)


def race(search: Search, scorer: RacingScorer) -> list[list[Score]]:
    generations = []
    while generation := search.ask():
        scores = scorer.score(
            generation, incumbents=[c.architecture for c in search.top]
        )
        search.tell({score.architecture: score.accuracy for score in scores})
        generations.append(scores)
    return generations


@pytest.mark.parametrize("seed", range(3))
def test_the_same_top_ten_from_fewer_tokens(seed: int) -> None:
    table = TableRows()
    plain, raced = new_search(seed), new_search(seed)
    while generation := plain.ask():
        plain.tell(table.full(generation))
    scorer = racing(table, 10)
    race(raced, scorer)
    assert raced.top == plain.top
    assert scorer.full_token_evaluations == 400 * BATCHES * ROWS * TOKENS
    assert scorer.token_evaluations < scorer.full_token_evaluations / 2


def test_scores_of_survivors_are_whole_and_of_others_below_the_top() -> None:
    table = TableRows()
    search = new_search(0)
    scorer = racing(table, 10)
    for scores in race(search, scorer)[:1]:
        full = table.full([score.architecture for score in scores])
        kept = [score for score in scores if not score.eliminated]
        gone = [score for score in scores if score.eliminated]
        assert len(kept) >= 10
        assert gone
        for score in kept:
            assert score.accuracy == full[score.architecture]
            assert score.masked_tokens == BATCHES * ROWS * TOKENS
        tenth = sorted((score.accuracy for score in kept), reverse=True)[9]
        for score in gone:
            assert score.accuracy < tenth
            assert 0 < score.masked_tokens < BATCHES * ROWS * TOKENS
            # an estimate from a part of the examples
            assert score.accuracy == pytest.approx(full[score.architecture], abs=0.05)


def test_a_restart_in_between_changes_nothing() -> None:
    whole = new_search(1)
    expected = race(whole, racing(TableRows(), 10))
    search = new_search(1)
    found = []
    while generation := search.ask():
        # a new process every time: nothing is known of the best so far
        scorer = racing(TableRows(), 10)
        scores = scorer.score(
            generation, incumbents=[c.architecture for c in search.top]
        )
        search.tell({score.architecture: score.accuracy for score in scores})
        found.append(scores)
    assert found == expected
    assert search.top == whole.top


def test_order_and_ties() -> None:
    class Same(TableRows):
        def _whole(self, candidate: str) -> NDArray[np.float64]:
            return super()._whole("cccccccc")

    candidates = [c * 8 for c in "csf"] + ["cs" * 4, "sf" * 4]
    scores = racing(Same(), 1).score(candidates)
    assert not any(score.eliminated for score in scores)
    assert len({score.accuracy for score in scores}) == 1
    table = TableRows()
    one = racing(table, 2).score(candidates)
    other = racing(table, 2).score(candidates[::-1])
    assert one == other[::-1]


def test_nothing_held_out() -> None:
    class Empty(TableRows):
        num_batches = 0

    with pytest.raises(CommandError, match="held-out set is empty"):
        RacingScorer(Empty(), top_k=1, generations=8).score(["c" * 8])
