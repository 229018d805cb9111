"""The command ``search``: resume, files, refusals, one compiled function."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandError, UsageError
from lvbert_tf.search.evolution import EvolutionSearch, Search
from lvbert_tf.search.space import SearchSpace
from tests.training.scoring.test_score import TableScorer
from tests.training.supernets import make_supernet_run
from training import __main__ as application
from training.scoring.cache import CachedScorer
from training.scoring.score import Score, rank_key
from training.search import loop as stage
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
    stage.search_on(search, CachedScorer(TableScorer(), folder / "scores.jsonl"), log)
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
        stage.search_on(search, inner_score, log)


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
    stage.search_on(search, CachedScorer(inner, tmp_path / "scores.jsonl"), log)
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
        stage.search_on(search, inner, log)


@pytest.fixture(scope="module")
def supernet_run(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    return make_supernet_run(tmp_path_factory.mktemp("supernet"), tiny_data)


def command(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    supernet: Path,
    data: Path,
    run_dir: Path,
    *options: str,
) -> tuple[int, Any, str]:
    argv = ["training", "search", "--supernet", str(supernet), "--data", str(data)]
    monkeypatch.setattr("sys.argv", [*argv, "--run-dir", str(run_dir), *options])
    status = application.main()
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    return status, json.loads(lines[-1]) if lines else None, captured.err


SMALL = (
    *("--population", "8", "--iterations", "3", "--crossover", "3", "--mutation", "3"),
    *("--top-k", "3"),
)


def test_the_command(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lvbert_tf.architecture import Architecture
    from training.pretraining import experiment
    from training.scoring import evaluate

    def run(name: str, *options: str) -> tuple[int, Any, str]:
        where = (supernet_run, tiny_data, tmp_path / name)
        return command(capsys, monkeypatch, *where, *SMALL, *options)

    status, result, errors = run("first")
    assert status == 0, errors
    assert result["evaluations"] == 8 + 3 * 2 * 2
    assert result["finished"] == "iterations"
    assert len(result["top"]) == 3
    assert result["best"] == result["top"][0]
    first = tmp_path / "first"
    for name in ("search.jsonl", "search.png", "winner.toml", "config.toml"):
        assert (first / name).stat().st_size > 0
    assert (first / "figures" / "letters.png").is_file()
    assert (first / "figures" / "winner.png").is_file()

    # `pretrain` takes the winner unchanged
    winner = experiment.load_pretrain(first / "winner.toml", [])
    assert winner.model.architecture == result["best"]["architecture"]
    assert winner.run.objective == "electra"
    with (first / "winner.toml").open("rb") as stream:
        assert tomllib.load(stream)["model"]["hidden_dim"] == 16

    # `evaluate` says of the winner what the search said
    scored = evaluate.run(
        supernet_run, str(tiny_data), [Architecture(result["best"]["architecture"])]
    )
    assert scored["results"][0]["accuracy"] == result["best"]["accuracy"]
    assert scored["results"][0]["loss"] == pytest.approx(
        result["best"]["loss"], rel=1e-6
    )

    # The same command again: nothing is done, and the same comes out
    log = (first / "search.jsonl").read_bytes()
    assert run("first")[1] == result
    assert (first / "search.jsonl").read_bytes() == log
    # Random search beside it, over fewer letters, from the same cache
    status, drawn, errors = run(
        "drawn", "--method", "random", "--letters", "cs", "--compare", str(first)
    )
    assert status == 0, errors
    assert drawn["finished"] == "exhausted"
    assert drawn["evaluations"] == drawn["space_size"] == 2**4
    assert (tmp_path / "drawn" / "search.png").stat().st_size > 0


def test_constraints_of_the_command(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = (supernet_run, tiny_data)
    table = tmp_path / "latency.json"
    table.write_text('{"milliseconds": {"c": 2, "s": 1, "f": 1}}')
    status, result, errors = command(
        *(capsys, monkeypatch, *where, tmp_path / "run", *SMALL),
        *("--pattern", "c??s", "--constraint", "count_f<=1"),
        *("--max-latency-ms", "6.5", "--latency-table", str(table)),
    )
    assert status == 0, errors
    # c??s with at most one f in the middle and at most one c more
    assert result["space_size"] == 3 * 3 - 2  # without ff and cc
    assert result["finished"] == "exhausted"
    for candidate in read_log(tmp_path / "run" / "search.jsonl"):
        if candidate["kind"] == "candidate":
            letters = candidate["architecture"]
            assert letters[0] == "c"
            assert letters[-1] == "s"
            assert letters.count("f") <= 1
            assert letters.count("c") <= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-params", "1"), "params <= 1: the least reachable value is"),
        (("--letters", "csq"), "not 'q'"),
        (("--pattern", "c?"), "must have 4 symbols"),
        (("--pattern", "c?q?"), "symbol 2 is 'q'"),
        (("--constraint", "params<8"), "expected NAME<=NUMBER"),
        (("--constraint", "weight<=8"), "unknown cost"),
        (("--max-latency-ms", "8"), "--latency-table FILE"),
        (("--initial", "ccq"), "Invalid architecture"),
        (("--initial", "cs"), "`initial` must be of the search space"),
        (("--population", "0"), "`population` must be at least 1"),
        (("--mutation-probability", "2"), "`mutation_probability` must be"),
        (("--seed", "-1"), "`seed` must be 0 or more"),
        (("--batch-size", "0"), "--batch-size must be at least 1"),
        (("--method", "luck"), "invalid choice"),
        (("--compare", "/nowhere"), "expected the log of a search"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    where = (supernet_run, tiny_data, tmp_path / "run")
    status, result, errors = command(capsys, monkeypatch, *where, *options)
    assert status == 2
    assert result is None
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run").exists()


def test_no_supernet_no_data(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_dir = tmp_path / "run"
    status, _, errors = command(capsys, monkeypatch, tmp_path, tiny_data, run_dir)
    assert status == 2
    assert "--supernet" in errors
    status, _, errors = command(capsys, monkeypatch, supernet_run, tmp_path, run_dir)
    assert status == 2
    assert "index.json" in errors
    other = tmp_path / "other"
    other.mkdir()
    index = json.loads((tiny_data / "index.json").read_text())
    index["vocabulary"]["sha256"] = "0" * 64
    for file in tiny_data.iterdir():
        if file.is_file():
            (other / file.name).write_bytes(file.read_bytes())
    (other / "index.json").write_text(json.dumps(index))
    status, _, errors = command(capsys, monkeypatch, supernet_run, other, run_dir)
    assert status == 2
    assert "is not the one that the supernet was trained with" in errors


def test_held_out_set_that_is_the_training_set_is_refused(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swapped = tmp_path / "swapped"
    swapped.mkdir()
    index = json.loads((tiny_data / "index.json").read_text())
    for shard in index["shards"]:
        shard["split"] = "held_out" if shard["split"] == "train" else "train"
    for file in tiny_data.iterdir():
        if file.is_file():
            (swapped / file.name).write_bytes(file.read_bytes())
    (swapped / "index.json").write_text(json.dumps(index))
    status, _, errors = command(
        capsys, monkeypatch, supernet_run, swapped, tmp_path / "run"
    )
    assert status == 2
    assert "overlaps with the supernet's training data" in errors


def test_a_moved_supernet_is_still_the_same(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_dir = tmp_path / "run"
    size = ("--population", "6", "--iterations", "1", "--top-k", "2")
    where = (capsys, monkeypatch, supernet_run, tiny_data, run_dir)
    status, first, errors = command(*where, *size)
    assert status == 0, errors
    assert first["fitness"] == "loss"
    assert first["best"]["loss"] == min(
        line["loss"]
        for line in read_log(run_dir / "search.jsonl")
        if line["kind"] == "candidate"
    )
    assert first["unigram_loss"] > 0
    # Its weights are random: nothing is learned, and it says so
    assert any("has not left the unigram loss" in one for one in first["warnings"])
    moved = tmp_path / "moved"
    shutil.copytree(supernet_run, moved)
    where = (capsys, monkeypatch, moved, tiny_data, run_dir)
    status, again, errors = command(*where, *size)
    assert status == 0, errors
    assert again == first
    # Another fitness is another search
    status, _, errors = command(*where, *size, "--fitness", "accuracy_all")
    assert status == 2
    assert "scoring.fitness" in errors
    # So is a run of before: its figures are those of other positions
    versions = json.loads((moved / "versions.json").read_text())
    del versions["format"]
    (moved / "versions.json").write_text(json.dumps(versions))
    status, _, errors = command(*where, *size)
    assert status == 2
    assert f"--supernet {moved}: expected a run of format 2, found format 1" in errors
    versions = json.loads((run_dir / "versions.json").read_text())
    del versions["format"]
    (run_dir / "versions.json").write_text(json.dumps(versions))
    where = (capsys, monkeypatch, supernet_run, tiny_data, run_dir)
    status, _, errors = command(*where, *size)
    assert status == 2
    assert f"--run-dir {run_dir}: expected a run of format 2" in errors


def test_candidates_that_all_tie_have_no_winner(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "training.scoring.supernet_scorer.score_of",
        lambda name, sums: Score(name, 0.05, 6.5, 0.01, 100, 0.2, 6.0),
    )
    run_dir = tmp_path / "run"
    where = (capsys, monkeypatch, supernet_run, tiny_data, run_dir)
    status, result, errors = command(
        *where, "--population", "6", "--iterations", "1", "--fitness", "accuracy"
    )
    assert status == 1
    assert result is None
    assert "all 6 candidates tie: each has accuracy 0.05" in errors
    assert not (run_dir / "winner.toml").exists()


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
