"""Fine-tuning: every weight arrives, every seed is listed, the model comes back."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf import LVBertBackbone, LVBertTextClassifier
from tests.commands import run as run_command
from tests.training.finetuning.conftest import experiment
from training.finetuning import classifier, fit, one_run, pretrained
from training.finetuning import stage as finetune

FROZEN = ("optimizer.learning_rate=1e-9", "run.epochs=1")


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    runs = [{k: v for k, v in r.items() if k != "seconds"} for r in result["runs"]]
    return {**result, "runs": runs, "model": None}


@pytest.fixture(scope="module")
def straight(
    tmp_path_factory: pytest.TempPathFactory, data_dir: Path, model_dir: Path
) -> tuple[Path, dict[str, Any]]:
    """Two seeds in one go."""
    path = tmp_path_factory.mktemp("straight") / "run"
    config = experiment(data_dir, model_dir, "run.runs=2", "run.seed=3")
    return path, finetune.run(config, path)


def test_seeds_are_listed_and_the_median_run_is_the_model(
    straight: tuple[Path, dict[str, Any]], data_dir: Path, model_dir: Path
) -> None:
    path, result = straight
    # T06: every seed, median, mean, std and n; "best" under its own key.
    assert [run["seed"] for run in result["runs"]] == [3, 4]
    scores = [run["accuracy"] for run in result["runs"]]
    assert result["median"] == np.median(scores)
    assert result["mean"] == np.mean(scores)
    assert result["std"] == pytest.approx(np.std(scores, ddof=1))
    assert (result["n"], result["best"], result["majority"]) == (2, max(scores), 0.5)
    assert result["median"] > 0.8  # one word decides: far above guessing
    assert all(run["above_majority"] for run in result["runs"])
    model = LVBertTextClassifier.from_preset(result["model"])
    assert model.labels == ["is bad", "is good"]
    # T14: the head is a dense layer and nothing else.
    encoder = {w.path for w in model.backbone.weights}
    heads = [w.path.split("/")[-1] for w in model.weights if w.path not in encoder]
    assert heads == ["kernel", "bias"]
    rows = (data_dir / "dev.tsv").read_text().splitlines()[1:]
    texts, labels = zip(*(row.split("\t") for row in rows), strict=True)
    predicted = model.predict(list(texts), verbose=0).argmax(axis=-1)
    names = [model.labels[index] for index in predicted]
    hits = np.mean([name == label for name, label in zip(names, labels, strict=True)])
    chosen = next(r for r in result["runs"] if r["seed"] == result["model_seed"])
    assert hits == chosen["accuracy"]
    assert sum(map(sum, chosen["confusion"])) == 16
    wrong = (path / "mistakes.tsv").read_text().splitlines()
    assert len(wrong) - 1 == round(16 * (1 - chosen["accuracy"]))
    for picture in ("curves", "runs", "confusion"):
        assert (path / "figures" / f"{picture}.png").stat().st_size > 1000
    assert "| 3 | " in (path / "runs.md").read_text()
    assert chosen["texts"]["train"]["unknown_fraction"] == 0


def test_fewer_runs_are_extended_and_processes_change_no_value(
    tmp_path: Path,
    straight: tuple[Path, dict[str, Any]],
    data_dir: Path,
    model_dir: Path,
) -> None:
    one = experiment(data_dir, model_dir, "run.runs=1", "run.seed=3")
    finetune.run(one, tmp_path)
    first = (tmp_path / "runs" / "seed-3" / "result.json").read_bytes()
    two = experiment(data_dir, model_dir, "run.runs=2", "run.seed=3")
    result = finetune.run(two, tmp_path)
    assert (tmp_path / "runs" / "seed-3" / "result.json").read_bytes() == first
    assert without_seconds(result) == without_seconds(straight[1])
    curves = [p / "metrics.jsonl" for p in (tmp_path, straight[0])]
    assert curves[0].read_bytes() == curves[1].read_bytes()
    assert finetune.run(two, tmp_path) == result
    # A model that someone deleted is trained again; another setting is refused.
    (tmp_path / "result.json").unlink()
    shutil.rmtree(tmp_path / "runs" / f"seed-{result['model_seed']}" / "model")
    again = finetune.run(two, tmp_path)
    assert without_seconds(again) == without_seconds(result)
    other = experiment(data_dir, model_dir, "run.runs=2", "run.epochs=3")
    with pytest.raises(UsageError, match="run.epochs: 12 there, 3 asked"):
        finetune.run(other, tmp_path)


@pytest.mark.slow
def test_seeds_in_processes_of_their_own_give_the_same(
    tmp_path: Path,
    straight: tuple[Path, dict[str, Any]],
    data_dir: Path,
    model_dir: Path,
) -> None:
    config = experiment(data_dir, model_dir, "run.runs=2", "run.seed=3")
    result = finetune.run(config, tmp_path, processes=2)
    assert without_seconds(result) == without_seconds(straight[1])


class Killed(BaseException):
    """Stands for a kill."""


def test_settings_that_cannot_be_leave_no_begun_run(
    tmp_path: Path, data_dir: Path, model_dir: Path
) -> None:
    wrong = experiment(data_dir, model_dir, "run.runs=1", "run.sequence_length=17")
    with pytest.raises(UsageError, match="run.sequence_length: expected 4 to 16"):
        finetune.run(wrong, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with pytest.raises(UsageError, match="expected either data.directory"):
        experiment(data_dir, model_dir, "data.train=a.tsv", "data.dev=b.tsv")


def test_two_commands_at_once_in_a_directory_are_refused(
    tmp_path: Path, data_dir: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = experiment(data_dir, model_dir, "run.runs=1")

    def meanwhile(*_: Any) -> None:
        with pytest.raises(UsageError, match="another process is working in it"):
            finetune.run(config, tmp_path)
        raise Killed

    monkeypatch.setattr(finetune, "_train", meanwhile)
    with pytest.raises(Killed):
        finetune.run(config, tmp_path)


def test_a_state_of_other_variables_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.npz"
    kernel, bias = keras.Variable(np.ones((2, 3))), keras.Variable(np.ones(3))
    fit._save(file, [kernel, bias], fit.State(step=4, window=[(0.5, 1.0, 2)]))
    assert fit._restore(file, [kernel, bias]).step == 4
    for others in ([kernel], [kernel, bias, bias], [bias, kernel]):
        with pytest.raises(CommandError, match=r"expected the \d variables of model"):
            fit._restore(file, others)


def test_a_killed_run_goes_on_bit_for_bit(
    tmp_path: Path,
    data_dir: Path,
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = experiment(
        data_dir, model_dir, "run.runs=1", "run.epochs=2", "run.checkpoint_every=4"
    )
    straight = finetune.run(config, tmp_path / "straight")
    save, saved = fit._save, 0

    def die(*arguments: Any) -> None:
        nonlocal saved
        save(*arguments)
        saved += 1
        if saved in (1, 2):
            raise Killed

    monkeypatch.setattr(fit, "_save", die)
    for _ in range(2):  # inside the first epoch, and at its end
        with pytest.raises(Killed):
            finetune.run(config, tmp_path / "killed")
    resumed = finetune.run(config, tmp_path / "killed")
    assert saved > 2
    assert without_seconds(resumed) == without_seconds(straight)
    models = [
        tmp_path / n / "model" / "task.weights.h5" for n in ("killed", "straight")
    ]
    backbones = [
        LVBertTextClassifier.from_preset(str(path.parent)).get_weights()
        for path in models
    ]
    for ours, theirs in zip(*backbones, strict=True):
        assert np.array_equal(ours, theirs)
    assert not list((tmp_path / "killed" / "runs").rglob("*.npz"))


def test_t01_constant_predictions_and_diverged_seeds_are_told(
    tmp_path: Path,
    data_dir: Path,
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = experiment(
        data_dir,
        model_dir,
        "run.runs=2",
        "optimizer.learning_rate=1e-9",
        "run.epochs=1",
    )
    original, number = one_run.train, 0

    def first_diverges(*arguments: Any, **options: Any) -> Any:
        nonlocal number
        number += 1
        if number == 1:
            raise CommandError("step 1: loss is nan")
        return original(*arguments, **options)

    def constant(*arguments: Any) -> Any:
        return np.tile(np.array([[1.0, 0.0]], np.float32), (16, 1))

    monkeypatch.setattr(one_run, "train", first_diverges)
    monkeypatch.setattr(classifier, "predict", constant)
    result = finetune.run(config, tmp_path)
    assert result["runs"][0]["error"] == "step 1: loss is nan"
    flagged = result["runs"][1]
    assert flagged["degenerate"] is True
    assert flagged["above_majority"] is False
    assert flagged["mcc"] == 0.0
    assert flagged["predicted"] == {"is bad": 16}
    assert (result["n"], result["median"], result["std"]) == (1, 0.5, None)
    assert result["degenerate_runs"] == 1
    assert "(degenerate)" in capsys.readouterr().err
    json.dumps(result, allow_nan=False)


def test_a_run_that_may_be_guessing_is_told_with_its_p_value(
    tmp_path: Path, data_dir: Path, model_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = experiment(
        data_dir,
        model_dir,
        "run.runs=1",
        "optimizer.learning_rate=1e-9",
        "run.epochs=1",
    )
    run = finetune.run(config, tmp_path)["runs"][0]
    assert run["above_majority"] is False
    assert run["above_majority_p"] > 0.05
    assert "warning: seed 0:" in capsys.readouterr().err


def test_a_run_at_chance_is_repeated_once_at_half_the_rate(
    tmp_path: Path, data_dir: Path, model_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = ("run.runs=1", "run.epochs=2", "optimizer.retry_at_half_rate=true")
    stuck = experiment(data_dir, model_dir, *overrides, "optimizer.learning_rate=1e-9")
    run = finetune.run(stuck, tmp_path / "stuck")["runs"][0]
    assert run["retried"] is True
    assert run["learning_rate"] == 0.5e-9
    assert "once more with half the rate" in capsys.readouterr().err


def test_an_epoch_of_many_hits_has_left_chance() -> None:
    problem = SimpleNamespace(chance=0.5)
    for hits, left in ((50.0, False), (58.0, False), (60.0, True)):
        assert fit._left_chance(problem, fit.State(hits=(hits, 100))) is left
    numbers = SimpleNamespace(chance=None)
    assert fit._left_chance(numbers, fit.State())


def test_the_best_epoch_is_kept_and_a_run_may_end_early(
    tmp_path: Path, data_dir: Path, model_dir: Path
) -> None:
    config = experiment(
        data_dir,
        model_dir,
        "run.runs=1",
        "run.keep=best",
        "run.early_stopping=2",
        "run.epochs=40",
        "run.class_weights=balanced",
        "run.label_smoothing=0.1",
    )
    run = finetune.run(config, tmp_path)["runs"][0]
    assert run["steps"] == 6 * (run["best_epoch"] + 2) < 240
    assert run["accuracy"] > 0.8
    with pytest.raises(UsageError, match=r"early_stopping needs run\.keep=best"):
        experiment(data_dir, model_dir, "run.early_stopping=2")


def test_a_divergence_is_found(tmp_path: Path, data_dir: Path, model_dir: Path) -> None:
    config = experiment(
        data_dir, model_dir, "run.runs=1", "optimizer.learning_rate=1e38"
    )
    with pytest.raises(CommandError, match=r"none of the 1 runs .* step \d+: loss"):
        finetune.run(config, tmp_path)


def test_a_weight_that_did_not_arrive_is_an_error(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = LVBertBackbone.from_preset

    def forgetful(path: str) -> Any:
        backbone = original(path)
        kernel = next(w for w in backbone.weights if "layer_1_s" in w.path)
        kernel.assign(kernel + 1.0)
        return backbone

    assert pretrained.load(model_dir).ignored == 0
    monkeypatch.setattr(LVBertBackbone, "from_preset", forgetful)
    with pytest.raises(CommandError, match=r"1 of .* not in the file: .*layer_1_s"):
        pretrained.load(model_dir)


def test_what_is_no_model_is_refused(tmp_path: Path, data_dir: Path) -> None:
    with pytest.raises(UsageError, match="expected a model directory"):
        finetune.run(experiment(data_dir, tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command_takes_files_and_columns(
    tmp_path: Path, model_dir: Path, data_dir: Path
) -> None:
    for name in ("train", "dev"):
        rows = (data_dir / f"{name}.tsv").read_text().splitlines()[1:]
        lines = ["stars,review", *(",".join(row.split("\t")[::-1]) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    ran = run_command(
        "training",
        "finetune",
        *("--task", "csv", "--model", model_dir, "--run-dir", tmp_path / "run"),
        *("--train", tmp_path / "train.csv", "--dev", tmp_path / "dev.csv"),
        *("--text-column", "review", "--label-column", "stars", "--runs", "1"),
        *("--set", "run.epochs=1", "--official", "--set", "run.bucketing=true"),
    )
    assert ran.status == 0, ran.errors
    assert ran.output["runs"][0]["layer_decay"] == 0.8
    config = (tmp_path / "run" / "config.toml").read_text()
    assert "clip_occurrences = true" in config
    assert "bucketing = true" in config
    assert ran.output["labels"] == ["is bad", "is good"]
    ran = run_command(
        "training",
        "finetune",
        *("--task", "csv", "--model", model_dir, "--run-dir", tmp_path / "other"),
        *("--train", tmp_path / "train.csv"),
    )
    assert ran.status == 2
    assert "--train FILE --dev FILE" in ran.errors
