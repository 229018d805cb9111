"""The loop of a search and its log: killed anywhere it goes on, ties have an order."""

import json
from pathlib import Path
from typing import Any

import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf.search.evolution import EvolutionSearch, Search
from lvbert_tf.search.space import SearchSpace
from tests.training.scoring.table_scorer import TableScorer
from training.scoring.cache import CachedScorer
from training.scoring.score import Score, rank_key
from training.search import loop
from training.search.log import SearchLog, read_log


class Killed(BaseException):
    """Stands for the end of a process at this very place."""


def new_search() -> Search:
    return EvolutionSearch(
        SearchSpace("csf", 8),
        seed=4,
        population=10,
        iterations=5,
        crossover=4,
        mutation=6,
        top_k=4,
    )


def finish(folder: Path) -> tuple[Search, SearchLog]:
    search, log = new_search(), SearchLog(folder)
    log.resume(search)
    loop.search_on(search, CachedScorer(TableScorer(), folder / "scores.jsonl"), log)
    return search, log


def kill_after(folder: Path, scores: int) -> None:
    """Runs the search in `folder` until so many candidates were scored."""
    search, log = new_search(), SearchLog(folder)
    log.resume(search)
    inner = TableScorer()
    left = scores

    def score(candidates: Any, on_scored: Any = None, **_: Any) -> list[Score]:
        def count(one: Score) -> None:
            nonlocal left
            on_scored(one)
            left -= 1
            if left == 0:
                raise Killed

        return TableScorer.score(inner, candidates, count)

    inner_score = CachedScorer(inner, folder / "scores.jsonl")
    inner.score = score  # type: ignore[method-assign]
    with pytest.raises(Killed):
        loop.search_on(search, inner_score, log)


def test_killed_anywhere_and_run_again_gives_the_same(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    expected, expected_log = finish(whole)
    for scores in (3, 10, 17, 33, 50):
        folder = tmp_path / f"killed_{scores}"
        folder.mkdir()
        kill_after(folder, scores)
        search, log = finish(folder)
        assert search.top == expected.top
        assert log.file.read_bytes() == expected_log.file.read_bytes()
        assert log.scores == expected_log.scores


def test_killed_between_log_and_state(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    _, expected = finish(whole)
    folder = tmp_path / "killed"
    folder.mkdir()
    kill_after(folder, 25)
    # What a crash leaves after the log was written, and before the state: lines of a
    # generation that the state does not know, the last of them torn.
    log = SearchLog(folder)
    extra = [line for line in read_log(expected.file) if line["iteration"] == 3]
    with log.file.open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in extra[:-1])
        stream.write(json.dumps(extra[-1])[:40])
    _, resumed = finish(folder)
    assert resumed.file.read_bytes() == expected.file.read_bytes()


def test_nothing_is_scored_twice(tmp_path: Path) -> None:
    kill_after(tmp_path, 15)
    search, log = new_search(), SearchLog(tmp_path)
    log.resume(search)
    inner = TableScorer()
    loop.search_on(search, CachedScorer(inner, tmp_path / "scores.jsonl"), log)
    assert len(inner.asked) == len(set(inner.asked)) == 50 - 15
    assert search.evaluations == 50


def test_the_log(tmp_path: Path) -> None:
    search, log = finish(tmp_path)
    lines = read_log(log.file)
    assert [line["kind"] for line in lines] == (["candidate"] * 10 + ["iteration"]) * 5
    assert len({line["architecture"] for line in lines if "origin" in line}) == 50
    last = lines[-1]
    assert last["iteration"] == 5
    assert last["best"] == -search.top[0].fitness  # a loss, by default
    assert last["fitness"] == "loss"
    assert [c["architecture"] for c in last["top"]] == [
        c.architecture for c in search.top
    ]
    for name in ("mean", "top_mean", "new", "repeated", "rejected", "evaluations"):
        assert name in last
    first = lines[0]
    assert first["origin"] == "random"
    assert first["accuracy"] == (1 + first["architecture"].count("c")) / 10
    assert "seconds" not in log.file.read_text()


def test_a_state_of_another_search_is_refused(tmp_path: Path) -> None:
    finish(tmp_path)
    other = EvolutionSearch(SearchSpace("csf", 9), seed=4)
    with pytest.raises(CommandError, match=r"state\.json: cannot go on .* space:"):
        SearchLog(tmp_path).resume(other)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(CommandError, match="cannot go on"):
        SearchLog(tmp_path).resume(new_search())


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    file = tmp_path / "search.jsonl"
    with pytest.raises(UsageError, match="expected the log of a search"):
        read_log(file)
    file.write_text('{"kind": "candidate", "iteration": 1}\nnonsense\n')
    with pytest.raises(UsageError, match=r"search.jsonl:2: expected a line"):
        read_log(file)


def test_a_stop_explains_how_to_go_on(tmp_path: Path) -> None:
    import os
    import signal

    from training.run.signals import StopRequested

    search, log = new_search(), SearchLog(tmp_path)
    inner = TableScorer()

    def score(candidates: Any, on_scored: Any = None, **_: Any) -> list[Score]:
        os.kill(os.getpid(), signal.SIGTERM)
        return TableScorer.score(inner, candidates, on_scored)

    inner.score = score  # type: ignore[method-assign]
    with pytest.raises(StopRequested, match=r"stopped by SIGTERM in iteration 1; run"):
        loop.search_on(search, inner, log)


def test_ties_are_broken_by_loss_then_by_name() -> None:
    search = EvolutionSearch(SearchSpace("csf", 2), population=9, top_k=4)
    names = search.ask()
    losses = {name: 1.0 if name in ("sf", "fc") else 2.0 for name in names}
    search.tell(dict.fromkeys(names, 0.5), losses)
    best = [candidate.architecture for candidate in search.top]
    assert best == ["fc", "sf", "cc", "cf"]
    scores = [Score(name, 0.5, losses[name], 0.0, 9, 0.5, 1.0) for name in names]
    for fitness in ("accuracy", "loss", "accuracy_all"):
        ranked = sorted(scores, key=lambda one: rank_key(one, fitness))
        assert [one.architecture for one in ranked[:4]] == best
