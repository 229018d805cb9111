"""The quickstart: finished stages are kept, interrupted ones go on, the verdict."""

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.command_line import CommandError, UsageError
from tests.paths import REPOSITORY
from training.data.labelled import LabelledText, read_labelled, write_labelled
from training.quickstart import experiment as quickstart_experiment
from training.quickstart import stage as quickstart
from training.quickstart import stages as quickstart_stages
from training.quickstart.data import gather
from training.quickstart.machine import measure_gflops
from training.quickstart.summary import print_summary, summarize

RESULTS: Mapping[str, Mapping[str, Any]] = {
    "data": {"corpus": "9 texts", "seconds": 1.0},
    "search": {"best": {"architecture": "csf", "accuracy": 0.25}, "seconds": 2.5},
    "finetune": {"median": 0.75, "majority": 0.5, "model": "m", "seconds": 3.0},
    "export": {
        "saved_model": {"path": "s", "max_abs_difference": 1e-7},
        "onnx": {"path": "o", "max_abs_difference": 2e-7},
        "seconds": 1.0,
    },
    "serve": {"answers": [{"text": "fine", "label": "good"}], "seconds": 1.0},
}


def config(*overrides: str) -> quickstart_experiment.QuickstartExperiment:
    return quickstart_experiment.load(None, list(overrides), gflops=100.0)


def test_finished_stages_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def stage(name: str) -> quickstart_stages.Stage:
        def run(quickstart: Any, folder: Path) -> Mapping[str, Any]:
            calls.append(name)
            if name == "finetune" and calls.count(name) == 1:
                raise CommandError("killed")
            return {key: v for key, v in RESULTS[name].items() if key != "seconds"}

        return run

    stages = {name: stage(name) for name in RESULTS}
    monkeypatch.setattr(quickstart, "STAGES", stages)
    with pytest.raises(CommandError, match="killed"):
        quickstart.run(config(), tmp_path)
    result = quickstart.run(config(), tmp_path)
    assert calls == ["data", "search", "finetune", "finetune", "export", "serve"]
    assert result["passed"] is True
    assert result["architecture"] == "csf"
    assert set(result["stages"]) == set(RESULTS)
    assert str(tmp_path / "figures" / "architecture.png") in result["pictures"]
    assert quickstart.run(config(), tmp_path) == result
    assert len(calls) == 6
    with pytest.raises(UsageError, match=r"run\.minutes: 6\.5 there, 3\.0 asked"):
        quickstart.run(config("run.minutes=3"), tmp_path)


def test_the_verdict_needs_ten_points(tmp_path: Path) -> None:
    results = {name: dict(result) for name, result in RESULTS.items()}
    results["finetune"]["median"] = 0.59
    summary = summarize(results, tmp_path)
    assert summary["passed"] is False
    stream = io.StringIO()
    print_summary(summary, stream)
    shown = stream.getvalue()
    assert "DOES NOT PASS" in shown
    assert "59.0% of the held-out texts right, 9.0 points more" in shown
    assert "fixed" not in shown
    assert "label good: fine" in shown
    assert "search           2  best csf 0.25" in shown


def test_the_margin_reached_and_fixed_layers_are_told(tmp_path: Path) -> None:
    results = {name: dict(result) for name, result in RESULTS.items()}
    results["search"]["pattern"] = "??f"
    summary = summarize(results, tmp_path)
    assert summary["fixed"] == {"3": "f"}
    stream = io.StringIO()
    print_summary(summary, stream)
    assert "layers that were fixed, not found: 3: f" in stream.getvalue()
    assert "75.0% of the held-out texts right, 25.0 points more" in stream.getvalue()
    assert config().stage("search").space.pattern == ""


def test_steps_scale_with_time_and_machine(tmp_path: Path) -> None:
    base = config()
    assert base.scaled(500) == 500
    assert config("run.minutes=13").scaled(500) == 1000
    assert config("run.gflops=20").scaled(500) == 100
    assert config("run.gflops=0.01").scaled(500, least=20) == 20
    supernet = base.stage("supernet")
    assert (supernet.run.steps, supernet.optimizer.warmup_steps) == (1000, 100)
    half = config("run.minutes=3.25", "supernet.optimizer.warmup_steps=7")
    supernet = half.stage("supernet")
    assert (supernet.run.steps, supernet.optimizer.warmup_steps) == (500, 7)
    assert half.stage("search").scoring.examples == 128
    assert half.stage("finetune").run.epochs == 1
    assert measure_gflops(0.05) > 0


def test_the_written_configuration_reads_back(tmp_path: Path) -> None:
    first = config(
        "run.seed=3", "supernet.run.steps=600", "search.space.pattern=cccccc??"
    )
    file = tmp_path / "config.toml"
    file.write_text(quickstart_experiment.to_toml(first))
    again = quickstart_experiment.load(file, [], gflops=100.0)
    assert quickstart_experiment.to_toml(again) == file.read_text()
    for name in quickstart_experiment.STAGE_KINDS:
        assert again.stage(name) == first.stage(name)
    assert again.stage("pretrain").run.seed == 3
    assert again.stage("supernet").run.checkpoint_every == 30


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("supernet.run.step=3", "unknown key run.step; did you mean 'steps'"),
        ("supernet.model.hidden_dim=7", "model.hidden_dim must be a multiple"),
        ("search.algorithm.top_k=0", "--set search.algorithm.top_k: expected at least"),
        ("serve.run.steps=3", "expected a stage out of supernet, search, pretrain"),
        ("model.num_layers=4", "unknown section 'model'"),
        ("run.minutes=long", "--set run.minutes: expected a number"),
    ],
)
def test_settings_of_stages_are_checked_before_anything_runs(
    override: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        config(override)
    assert message in str(caught.value)


def labelled(path: Path, count: int = 400) -> Path:
    """Writes reviews of a made-up kind: two classes with words of their own."""
    draw = np.random.default_rng(3)
    words = {"bad": ["dull", "weak", "poor"], "good": ["fine", "warm", "bright"]}
    common = [f"{a}{b}" for a in ("ka", "lo", "mi", "nu") for b in ("ra", "so", "ti")]
    rows = []
    for number in range(count):
        label = ("bad", "good")[number % 2]
        text = [*draw.choice(common, 12), *draw.choice(words[label], 4)]
        draw.shuffle(text)
        rows.append(LabelledText(" ".join(text), label))
    write_labelled(path, rows)
    return path


def test_held_out_texts_stay_out_of_the_corpus(tmp_path: Path) -> None:
    file = labelled(tmp_path / "own.tsv")
    corpus = tmp_path / "own.txt"
    corpus.write_text("some text\n")
    both = config(f"data.labelled={file}", f"data.corpus={corpus}")
    gather(both, tmp_path)
    train = read_labelled(tmp_path / "labelled" / "train.tsv")
    dev = read_labelled(tmp_path / "labelled" / "dev.tsv")
    assert len(train) + len(dev) == 400
    assert not {row.text for row in train} & {row.text for row in dev}
    assert {row.label for row in dev} == {"bad", "good"}
    assert not (tmp_path / "corpus.txt").exists()
    assert len(json.loads((tmp_path / "ask.json").read_text())) == 4


@pytest.mark.slow
def test_the_whole_journey_on_made_up_reviews(tmp_path: Path) -> None:
    file = labelled(tmp_path / "own.tsv", count=2000)
    corpus = tmp_path / "own.txt"
    texts = [row.text for row in read_labelled(file)]
    corpus.write_text("\n\n".join(texts) + "\n")
    command = [sys.executable, "-m", "training", "quickstart"]
    command += ["--run-dir", str(tmp_path / "run"), "--minutes", "0.5"]
    command += ["--labelled", str(file), "--corpus", str(corpus)]
    command += ["--set", "data.vocabulary_size=200", "--set"]
    command += ["supernet.model.num_layers=4"]
    command += ["--set", "finetune.run.epochs=4"]
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0
    assert result["passed"] is True
    assert set(result["stages"]) == set(quickstart_stages.STAGES)
    assert len(result["answers"]) == 4
    for picture in result["pictures"]:
        assert Path(picture).exists()
