"""The command ``search`` over seeds and methods, racing, suggestions, devices."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.paths import REPOSITORY
from tests.training.search.conftest import RunSearch
from tests.training.search.options import SMALL
from training.search.log import read_log


def test_both_methods_and_two_seeds_in_one_command(
    tmp_path: Path,
    run_search: RunSearch,
) -> None:
    run_dir = tmp_path / "run"
    options = ("--method", "both", "--seeds", "2", "--seed", "3", "--population", "6")
    status, result, errors = run_search(run_dir, *SMALL, *options)
    assert status == 0, errors
    kinds = [(one["method"], one["seed"]) for one in result["searches"]]
    assert kinds == [(m, s) for m in ("evolution", "random") for s in (3, 4)]
    # equal numbers of evaluations for both methods
    assert {one["evaluations"] for one in result["searches"]} == {18}
    assert result["evaluations"] == 4 * 18
    lines = read_log(run_dir / "search.jsonl")
    assert {(line["method"], line["seed"]) for line in lines} == set(kinds)
    best = min(line["loss"] for line in lines if line["kind"] == "candidate")
    assert result["best"]["loss"] == best == result["top"][0]["loss"]

    # Letters by position, over the tops of both seeds
    letters = result["letters"]["evolution"]
    assert letters["searches"] == 2
    assert letters["candidates"] == 2 * 3
    assert [sum(c) for c in zip(*letters["counts"].values(), strict=True)] == [6] * 4
    assert letters["bottom_two_layers"]["of"] == 12
    assert set(letters["winners"]) == {"evolution_3", "evolution_4"}

    # The front: nothing beats it, and the winner ends it
    front = result["pareto"]["params"]
    assert [p["cost"] for p in front] == sorted(p["cost"] for p in front)
    assert front[-1]["loss"] == best
    table = (run_dir / "pareto_params.tsv").read_text().splitlines()
    assert len(table) == 1 + len(front)

    explained = json.loads((run_dir / "explained.json").read_text())
    assert "r2" in explained or "undefined" in explained
    for name in (
        "search.png",
        "winner.toml",
        "pareto_flops.tsv",
        "figures/letters_evolution.png",
        "figures/letters_random.png",
        "figures/pareto_params.png",
        "figures/winner.png",
    ):
        assert (run_dir / name).stat().st_size > 0, name
    # What two searches proposed was scored once
    cached = (run_dir / "scores.jsonl").read_text().splitlines()
    names = [json.loads(line)["architecture"] for line in cached]
    assert len(names) == len(set(names)) < result["evaluations"]
    assert run_search(run_dir, *SMALL, *options)[1] == result


def test_racing_and_suggestions(
    tmp_path: Path,
    run_search: RunSearch,
) -> None:
    options = ("--population", "20", "--iterations", "3", "--top-k", "2")
    small = (*options, "--batch-size", "16")
    _, plain, _ = run_search(tmp_path / "plain", *small)
    status, raced, errors = run_search(tmp_path / "raced", *small, "--racing")
    assert status == 0, errors
    assert [one["architecture"] for one in raced["top"]] == [
        one["architecture"] for one in plain["top"]
    ]
    assert raced["best"] == plain["best"]
    assert raced["masked_token_evaluations"] < plain["masked_token_evaluations"]
    assert not (tmp_path / "raced" / "scores.jsonl").exists()
    log = read_log(tmp_path / "raced" / "search.jsonl")
    assert any(line.get("eliminated") for line in log)
    status, _, errors = run_search(
        tmp_path / "x", "--racing", "--score-cache", str(tmp_path / "c")
    )
    assert status == 2
    assert "--racing neither reads nor writes" in errors


def test_suggestions(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_search: RunSearch,
) -> None:
    monkeypatch.setattr("training.search.loop.SUGGEST_FROM", 20)
    # Not its best string, which in so small a space may have been scored already
    offered = itertools.product("csf", repeat=4)
    monkeypatch.setattr(
        "lvbert_tf.search.letter_model.LetterModel.best",
        lambda model, space: "".join(next(offered)),
    )
    options = ("--population", "20", "--iterations", "4", "--top-k", "2", "--suggest")
    sizes = ("--crossover", "2", "--mutation", "2")
    status, result, errors = run_search(tmp_path / "run", *options, *sizes)
    assert status == 0, errors
    origins = [one["origin"] for one in candidates(tmp_path / "run")]
    assert 1 <= origins.count("suggestion") <= 3
    assert result["evaluations"] == 20 + 3 * 4 + origins.count("suggestion")
    # The regression's string was offered, so its own score is known
    best = result["explained"]["best"]
    assert set(best) == {"architecture", "predicted", "measured"}


def start(
    supernet: Path, data: Path, run_dir: Path, *options: str, **env: str
) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "training", "search", "--supernet", str(supernet)]
    return subprocess.Popen(
        [*words, "--data", str(data), "--run-dir", str(run_dir), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **env},
    )


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def candidates(run_dir: Path) -> list[dict[str, Any]]:
    log = read_log(run_dir / "search.jsonl")
    return [line for line in log if line["kind"] == "candidate"]


def assert_equal_scores(found: Path, expected: Path) -> None:
    """Other shapes of the same rows: losses differ by rounding, hits do not."""
    ours, theirs = candidates(found), candidates(expected)
    assert len(ours) == len(theirs) > 0
    for one, other in zip(ours, theirs, strict=True):
        assert one["architecture"] == other["architecture"]
        assert one["accuracy"] == other["accuracy"]
        assert one["masked_tokens"] == other["masked_tokens"]
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)


@pytest.mark.multi_device
def test_two_devices_score_alike(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    run_search: RunSearch,
) -> None:
    run_search(tmp_path / "one", *SMALL, "--batch-size", "8")
    mirrored = ("--strategy", "mirrored", "--logical-cpus", "2", "--batch-size", "8")
    result = finish(start(supernet_run, tiny_data, tmp_path / "two", *SMALL, *mirrored))
    assert result["evaluations"] == 20
    assert_equal_scores(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.multi_device
@pytest.mark.parametrize("options", [(), ("--racing",)])
def test_two_processes_score_alike(
    tmp_path: Path,
    supernet_run: Path,
    tiny_data: Path,
    options: tuple[str, ...],
    run_search: RunSearch,
) -> None:
    import socket

    run_search(tmp_path / "one", *SMALL, *options, "--batch-size", "8")
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    workers = [
        start(
            supernet_run,
            tiny_data,
            tmp_path / "two",
            *(*SMALL, *options, "--strategy", "multi_worker", "--batch-size", "8"),
            TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in range(2)
    ]
    results = [finish(worker) for worker in workers]
    assert results[0]["evaluations"] == 20
    assert results[1]["worker"] == 1
    assert_equal_scores(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--racing",)])
def test_kill_9_and_the_same_command_again(
    tmp_path: Path, supernet_run: Path, tiny_data: Path, options: tuple[str, ...]
) -> None:
    size = ("--population", "12", "--iterations", "4", "--top-k", "3", *options)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    expected = finish(start(supernet_run, tiny_data, whole, *size))
    for generations in (1, 2):
        process = start(supernet_run, tiny_data, killed, *size)
        log = killed / "search.jsonl"
        while process.poll() is None:
            written = log.read_text() if log.exists() else ""
            if written.count('"kind": "iteration"') >= generations:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    result = finish(start(supernet_run, tiny_data, killed, *size))
    assert result["top"] == expected["top"]
    assert (killed / "search.jsonl").read_bytes() == (
        whole / "search.jsonl"
    ).read_bytes()
