"""Batches, targets and losses: what is padded, weighed and measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from common.command_line import UsageError
from common.labelled_tables.examples import LabelledExample
from lvbert_tf import LVBertTextClassifier
from tests.training.finetuning.conftest import experiment
from training.finetuning import pretrained, stage, task_data
from training.finetuning.classifier import ClassifierProblem
from training.finetuning.encoding import encode, epoch_batches, rounded
from training.finetuning.learning import learning_of
from training.finetuning.report import mistakes
from training.finetuning.targets import Targets, targets_of
from training.finetuning.tasks import GLUE, SQUAD


def rows(*pairs: tuple[str, str]) -> list[LabelledExample]:
    return [LabelledExample((text,), label) for text, label in pairs]


def problem_of(data_dir: Path, model_dir: Path, *overrides: str) -> ClassifierProblem:
    settings = experiment(data_dir, model_dir, *overrides)
    data = task_data.load(settings)
    return ClassifierProblem(settings, pretrained.load(model_dir), data)


def test_every_row_is_in_one_batch_of_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 1000)
    for bucketed in (True, False):
        batches = epoch_batches(lengths, 32, 7, 2, bucketed)
        assert sorted(np.concatenate(batches)) == list(range(1000))
        assert max(map(len, batches)) == 32
    again = epoch_batches(lengths, 32, 7, 2, True)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(epoch_batches(lengths, 32, 7, 2, True), again, strict=True)
    )
    other = epoch_batches(lengths, 32, 7, 3, True)
    assert not np.array_equal(other[0], again[0])
    padded = sum(rounded(lengths[b].max(), 128) * len(b) for b in again)
    assert padded < 1.2 * lengths.sum() + 8 * 1000
    assert (rounded(9, 128), rounded(8, 128), rounded(127, 124)) == (16, 8, 124)


def test_rows_are_those_of_the_preprocessor_and_losses_are_counted(
    data_dir: Path, model_dir: Path
) -> None:
    start = pretrained.load(model_dir)
    texts = [("good film",), ("the plot was a bad bad bad film is it",), ("zzz",)]
    encoded = encode(start.tokenizer, texts, 8)
    preprocessor = problem_of(data_dir, model_dir).model.preprocessor
    preprocessor.sequence_length = 8
    expected = preprocessor([text for (text,) in texts], None)
    for name, value in encoded.batch([0, 1, 2], 8).items():
        assert np.array_equal(value, expected[name]), name
    assert (encoded.cut, encoded.longest, encoded.unknown) == (1, 12, 2)
    assert encoded.losses()["unknown_fraction"] == pytest.approx(2 / 13)


def test_padding_to_the_batch_changes_no_examples_gradient(
    data_dir: Path, model_dir: Path
) -> None:
    problem = problem_of(data_dir, model_dir, "run.sequence_length=16")
    assert problem.pads_freely
    variables = [v.value for v in problem.model.trainable_variables]

    def gradients(row: int, width: int) -> list[Any]:
        with tf.GradientTape() as tape:
            losses, _ = problem.losses(*problem.batch([row], width), training=False)
        found = tape.gradient(losses, variables)
        return [tf.convert_to_tensor(gradient).numpy() for gradient in found]

    for row in range(4):
        narrow = gradients(row, int(problem.lengths[row]))
        for ours, theirs in zip(narrow, gradients(row, 16), strict=True):
            assert np.abs(ours - theirs).max() <= 1e-6  # rounding of float32 sums


def test_where_padding_moves_outputs_every_batch_has_the_full_window(
    data_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    from lvbert_tf import LVBertBackbone, LVBertTokenizer

    official = LVBertBackbone.from_preset(str(model_dir)).get_config()
    official["mask_convolution"] = False
    LVBertBackbone.from_config(official).save_to_preset(str(tmp_path))
    LVBertTokenizer.from_preset(str(model_dir)).save_to_preset(str(tmp_path))
    problem = problem_of(data_dir, tmp_path)
    assert not problem.pads_freely
    assert problem.batch([0, 1], 8)[0]["token_ids"].shape == (2, 10)


def test_t02_the_squared_error_is_that_of_pairs() -> None:
    targets = Targets("regression", (), shift=1.0, scale=2.0)
    batch = targets.for_loss(np.array([1.0, 3.0, 5.0]))
    assert batch["target"].shape == (3, 1)
    losses, _ = targets.losses(tf.constant([[0.5], [1.0], [0.0]]), batch)
    assert losses.numpy().tolist() == [0.25, 0.0, 4.0]
    assert targets.predicted(np.array([[2.0]])).tolist() == [5.0]


def test_weights_smoothing_and_several_labels() -> None:
    targets = Targets(
        "classification",
        ("a", "b"),
        class_weights=np.array([0.5, 2.0], np.float32),
        smoothing=0.2,
    )
    batch = targets.for_loss(np.array([0, 1]))
    assert np.allclose(batch["target"], [[0.9, 0.1], [0.1, 0.9]])
    assert batch["weight"].tolist() == [0.5, 2.0]
    losses, hits = targets.losses(tf.zeros((2, 2)), batch)
    assert np.allclose(losses, np.log(2) * np.array([0.5, 2.0]))
    several = Targets("multi_label", ("a", "b"))
    logits = np.array([[3.0, -3.0], [3.0, 3.0]])
    values = np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)
    figures = several.figures(logits, values)
    assert figures["exact_match"] == 0.5
    assert figures["micro_f1"] == pytest.approx(0.8)
    _, hits = several.losses(tf.constant(logits, tf.float32), several.for_loss(values))
    assert hits.numpy().tolist() == [1.0, 0.0]


def test_a_mistake_is_one_row_whatever_texts_and_labels_hold() -> None:
    targets = Targets("classification", ("a\tb", "c"))
    logits = np.array([[3.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    texts = [("one\ntext",), ("right",), ("two\ttexts",)]
    rows = mistakes(targets, logits, np.array([1, 1, 1]), texts).splitlines()
    assert [line.split("\t")[1:] for line in rows] == [
        ["label", "predicted", "text"],
        ["c", "a b", "one text"],
        ["c", "a b", "two texts"],
    ]


def test_defaults_suit_the_models_size(model_dir: Path, data_dir: Path) -> None:
    class Backbone:
        def __init__(self, hidden_dim: int, layers: int) -> None:
            self.hidden_dim, self.architecture = hidden_dim, "s" * layers

    settings = experiment(
        data_dir, model_dir, "optimizer.learning_rate=0", "run.epochs=0"
    )

    def learning(task: Any, *size: int) -> tuple[float, float, int]:
        found = learning_of(settings, task, Backbone(*size))
        return found.learning_rate, found.layer_decay, found.epochs

    assert learning(GLUE["cola"], 256, 24) == (3e-4, 0.8, 3)  # the paper's Table 6
    assert learning(GLUE["rte"], 768, 24) == (1e-4, 0.8, 10)
    assert learning(SQUAD["squad2"], 768, 24) == (2e-4, 0.8, 2)
    assert learning(GLUE["cola"], 64, 8) == (3e-4, 1.0, 3)


@pytest.mark.parametrize(
    "override", ["run.class_weights=balanced", "run.label_smoothing=0.1"]
)
def test_settings_that_mean_nothing_are_refused(
    data_dir: Path, model_dir: Path, override: str
) -> None:
    settings = experiment(data_dir, model_dir, override)
    data = task_data.TaskData(GLUE["sts"], rows(("a", "1"), ("b", "2")), [])
    with pytest.raises(UsageError, match=override.split("=")[0]):
        targets_of(data, settings)


def test_numbers_come_back_in_the_labels_unit(tmp_path: Path, model_dir: Path) -> None:
    for name in ("train", "dev"):
        lines = [f"{('good', 'bad')[i % 2]} film\t{(40, 20)[i % 2]}" for i in range(32)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    config = experiment(
        tmp_path, model_dir, "run.runs=1", "task.kind=regression", "run.epochs=20"
    )
    result = stage.run(config, tmp_path / "run")
    assert result["median"] > 0.95
    model = LVBertTextClassifier.from_preset(result["model"])
    assert model.regression
    found = model.predict(["good film", "bad film"], verbose=0)[:, 0]
    assert np.allclose(found, [40, 20], atol=3)
