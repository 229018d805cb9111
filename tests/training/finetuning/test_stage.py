"""Fine-tuning: every weight arrives, every seed is listed, the model comes back."""

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf import LVBertBackbone, LVBertTextClassifier, LVBertTokenizer
from training.finetuning import experiment as finetune_experiment
from training.finetuning import pretrained
from training.finetuning import stage as finetune
from training.finetuning.experiment import FinetuneExperiment
from training.run import settings

WORDS = ["good", "bad", "film", "plot", "the", "a", "was", "is"]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pretrained") / "model"
    keras.utils.set_random_seed(1)
    backbone = LVBertBackbone(
        13,
        "cs",
        embedding_dim=32,
        hidden_dim=32,
        intermediate_dim=32,
        num_heads=2,
        dropout=0.0,
        attention_dropout=0.0,
        max_sequence_length=16,
    )
    backbone.save_to_preset(str(path))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    LVBertTokenizer([*special, *WORDS]).save_to_preset(str(path))
    return path


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task")
    draw = np.random.default_rng(0)
    for name, count in (("train", 48), ("dev", 16)):
        rows = []
        for number in range(count):
            label = ("bad", "good")[number % 2]
            words = [*draw.choice(WORDS[2:], 4), label, label]
            draw.shuffle(words)
            rows.append(f"{' '.join(words)}\tis {label}")
        text = "text\tlabel\n" + "\n".join(rows) + "\n"
        (path / f"{name}.tsv").write_text(text)
    return path


def experiment(data: Path, model: Path, *overrides: str) -> FinetuneExperiment:
    return settings.load(
        FinetuneExperiment,
        finetune_experiment.FINETUNE,
        None,
        [
            "task.name=tsv",
            f"data.directory={data}",
            f"model.directory={model}",
            "run.epochs=12",
            "run.batch_size=8",
            "run.sequence_length=10",
            "optimizer.learning_rate=0.01",
            "optimizer.layer_decay=1",
            *overrides,
        ],
    )


def test_seeds_are_listed_and_the_median_run_is_the_model(
    tmp_path: Path, data_dir: Path, model_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = experiment(data_dir, model_dir, "run.runs=2", "run.seed=3")
    result = finetune.run(config, tmp_path)
    backbone = LVBertBackbone.from_preset(str(model_dir))
    total = len(backbone.weights)
    assert f"loaded {total} of {total} encoder variables" in capsys.readouterr().err
    assert [run["seed"] for run in result["runs"]] == [3, 4]
    scores = [run["accuracy"] for run in result["runs"]]
    assert result["median"] == np.median(scores)
    assert result["mean"] == np.mean(scores)
    assert result["std"] == pytest.approx(np.std(scores, ddof=1))
    assert result["majority"] == 0.5
    assert result["median"] > 0.8  # one word decides: far above guessing
    classifier = LVBertTextClassifier.from_preset(result["model"])
    assert classifier.labels == ["is bad", "is good"]
    rows = (data_dir / "dev.tsv").read_text().splitlines()[1:]
    texts, labels = zip(*(row.split("\t") for row in rows), strict=True)
    predicted = classifier.predict(list(texts), verbose=0).argmax(axis=-1)
    names = [classifier.labels[index] for index in predicted]
    hits = np.mean([name == label for name, label in zip(names, labels, strict=True)])
    chosen = next(r for r in result["runs"] if r["seed"] == result["model_seed"])
    assert hits == chosen["accuracy"]
    assert finetune.run(config, tmp_path) == result


def test_one_seed_gives_one_score_and_a_killed_command_goes_on(
    tmp_path: Path,
    data_dir: Path,
    model_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = experiment(data_dir, model_dir, "run.runs=2", "run.epochs=1")
    straight = finetune.run(config, tmp_path / "straight")

    def die(*arguments: Any) -> Any:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(finetune, "_conclude", die)
        with pytest.raises(RuntimeError, match="killed"):
            finetune.run(config, tmp_path / "killed")
    # The second seed was not begun: only the first is kept, and is not run again.
    shutil.rmtree(tmp_path / "killed" / "runs" / "seed-1")
    first = (tmp_path / "killed" / "runs" / "seed-0" / "result.json").read_bytes()
    resumed = finetune.run(config, tmp_path / "killed")
    again = tmp_path / "killed" / "runs" / "seed-0" / "result.json"
    assert again.read_bytes() == first
    for ours, theirs in zip(resumed["runs"], straight["runs"], strict=True):
        assert ours["accuracy"] == theirs["accuracy"]
        assert ours["predicted"] == theirs["predicted"]
    curves = [
        (tmp_path / n / "metrics.jsonl").read_bytes() for n in ("killed", "straight")
    ]
    assert curves[0] == curves[1]


def test_constant_predictions_and_diverged_seeds_are_told(
    tmp_path: Path, data_dir: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = experiment(
        data_dir, model_dir, "run.runs=2", "optimizer.learning_rate=0", "run.epochs=1"
    )
    original = finetune._train_and_predict

    def first_diverges(*arguments: Any) -> Any:
        predicted, curve = original(*arguments)
        if arguments[-2] == 0:
            raise CommandError("step 1: loss is nan")
        return [0] * len(predicted), curve

    monkeypatch.setattr(finetune, "_train_and_predict", first_diverges)
    result = finetune.run(config, tmp_path)
    assert result["runs"][0]["error"] == "step 1: loss is nan"
    assert result["runs"][1]["degenerate"] is True
    assert result["runs"][1]["predicted"] == {"is bad": 16}
    assert (result["n"], result["median"], result["std"]) == (1, 0.5, None)


def test_a_divergence_is_found(tmp_path: Path, data_dir: Path, model_dir: Path) -> None:
    config = experiment(
        data_dir, model_dir, "run.runs=1", "optimizer.learning_rate=1e38"
    )
    with pytest.raises(CommandError, match=r"none of the 1 runs .* step \d+: loss"):
        finetune.run(config, tmp_path)


def test_a_weight_that_did_not_arrive_is_an_error(
    tmp_path: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
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
