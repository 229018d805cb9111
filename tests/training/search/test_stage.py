"""The command ``search``: files, refusals, what makes it another search."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.training.search.conftest import RunSearch
from tests.training.search.options import SMALL
from training.scoring.score import Score
from training.search.log import read_log


def test_the_command(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    run_search: RunSearch,
) -> None:
    from lvbert_tf.architecture import Architecture
    from training.pretraining import experiment
    from training.scoring import evaluate

    def run(name: str, *options: str) -> tuple[int, Any, str]:
        return run_search(tmp_path / name, *SMALL, *options)

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
    scored = evaluate.evaluate(
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
    run_search: RunSearch,
) -> None:
    table = tmp_path / "latency.json"
    table.write_text('{"milliseconds": {"c": 2, "s": 1, "f": 1}}')
    status, result, errors = run_search(
        *(tmp_path / "run", *SMALL),
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
    "runtime",
    [
        "keras",
        pytest.param("onnx", marks=pytest.mark.slow),
        pytest.param("onnx-int8", marks=pytest.mark.slow),
    ],
)
def test_a_table_that_was_measured_limits_the_search(
    tmp_path: Path, run_search: RunSearch, runtime: str
) -> None:
    file = tmp_path / "latency.json"
    widths = {"embedding_dim": 8, "hidden_dim": 16, "intermediate_dim": 32}
    words = [f"model.{name}={width}" for name, width in widths.items()]
    status, table, errors = commands.run(
        *("training", "latency", "--output", file, "--runtime", runtime),
        *("--set", "model.num_heads=2", "--sequence-length", "16", "--repeats", "9"),
        *(word for given in words for word in ("--set", given)),
    )
    assert status == 0, errors
    assert table["runtime"] == runtime
    times, base = table["milliseconds"], table["base_milliseconds"]
    dearest, cheapest = max(times, key=times.get), min(times, key=times.get)
    # Half of the layers may be of the dearest letter.
    limit = base + 2 * times[dearest] + 2 * times[cheapest] + 1e-6
    status, result, errors = run_search(
        *(tmp_path / "run", *SMALL, "--latency-table", str(file)),
        *("--max-latency-ms", str(limit), "--letters", dearest + cheapest),
    )
    assert status == 0, errors
    assert result["space_size"] == 1 + 4 + 6
    for candidate in read_log(tmp_path / "run" / "search.jsonl"):
        if candidate["kind"] == "candidate":
            assert candidate["architecture"].count(dearest) <= 2
    # The table is of layers 16 wide.
    file.write_text(json.dumps({**table, "hidden_dim": 32}))
    status, _, errors = run_search(
        *(tmp_path / "other", *SMALL, "--latency-table", str(file)),
        *("--max-latency-ms", str(limit)),
    )
    assert status == 2
    assert "its layers are 32 wide, those of the supernet 16" in errors


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
        (("--population", "0"), "--population: expected at least 1, found 0"),
        (
            ("--mutation-probability", "2"),
            "--mutation-probability: expected at most 1.0",
        ),
        (("--seed", "-1"), "--seed: expected at least 0, found -1"),
        (("--batch-size", "0"), "--batch-size: expected a whole number of at least 1"),
        (("--method", "luck"), "invalid choice"),
        (("--examples", "many"), "--examples: expected a whole number, found 'many'"),
        (("--set", "algorithm.top=3"), "did you mean 'top_k'?"),
        (("--compare", "/nowhere"), "expected the log of a search"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    options: tuple[str, ...],
    message: str,
    run_search: RunSearch,
) -> None:
    status, result, errors = run_search(tmp_path / "run", *options)
    assert status == 2
    assert result is None
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run").exists()


def test_no_supernet_no_data(
    tmp_path: Path,
    tiny_data: Path,
    run_search: RunSearch,
) -> None:
    run_dir = tmp_path / "run"
    status, _, errors = run_search(run_dir, supernet=tmp_path)
    assert status == 2
    assert "--supernet" in errors
    status, _, errors = run_search(run_dir, data=tmp_path)
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
    status, _, errors = run_search(run_dir, data=other)
    assert status == 2
    assert "is not the one that the supernet was trained with" in errors


def test_held_out_set_that_is_the_training_set_is_refused(
    tmp_path: Path,
    tiny_data: Path,
    run_search: RunSearch,
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
    status, _, errors = run_search(tmp_path / "run", data=swapped)
    assert status == 2
    assert "overlaps with the supernet's training data" in errors


def test_a_moved_supernet_is_still_the_same(
    tmp_path: Path,
    supernet_run: Path,
    run_search: RunSearch,
) -> None:
    run_dir = tmp_path / "run"
    size = ("--population", "6", "--iterations", "1", "--top-k", "2")
    status, first, errors = run_search(run_dir, *size)
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
    status, again, errors = run_search(run_dir, *size, supernet=moved)
    assert status == 0, errors
    assert again == first
    # Another fitness is another search
    status, _, errors = run_search(
        run_dir, *size, "--fitness", "accuracy_all", supernet=moved
    )
    assert status == 2
    assert "scoring.fitness" in errors
    # So is a run of before: its figures are those of other positions
    versions = json.loads((moved / "versions.json").read_text())
    del versions["format"]
    (moved / "versions.json").write_text(json.dumps(versions))
    status, _, errors = run_search(run_dir, *size, supernet=moved)
    assert status == 2
    assert f"--supernet {moved}: expected a run of format 2, found format 1" in errors
    versions = json.loads((run_dir / "versions.json").read_text())
    del versions["format"]
    (run_dir / "versions.json").write_text(json.dumps(versions))
    status, _, errors = run_search(run_dir, *size)
    assert status == 2
    assert f"--run-dir {run_dir}: expected a run of format 2" in errors


def test_candidates_that_all_tie_have_no_winner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_search: RunSearch,
) -> None:
    monkeypatch.setattr(
        "training.scoring.supernet_scorer.score_of",
        lambda name, sums: Score(name, 0.05, 6.5, 0.01, 100, 0.2, 6.0),
    )
    run_dir = tmp_path / "run"
    status, result, errors = run_search(
        run_dir, "--population", "6", "--iterations", "1", "--fitness", "accuracy"
    )
    assert status == 1
    assert result is None
    assert "all 6 candidates tie: each has accuracy 0.05" in errors
    assert not (run_dir / "winner.toml").exists()
