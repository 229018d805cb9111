"""What is wrong or suspicious about labelled files is told before training."""

from pathlib import Path

import pytest

from common.command_line import UsageError
from tests.paths import require_shared
from tests.training.finetuning.conftest import experiment
from training.finetuning import task_data


def load(folder: Path, *overrides: str, task: str = "tsv") -> task_data.TaskData:
    return task_data.load(experiment(folder, Path("model"), *overrides, task=task))


REFUSED = {
    "class_never_in_dev": None,
    "empty_dev": r"dev\.tsv: .*empty file",
    "labels_int_vs_float": r"dev\.tsv:2: label: expected one of 0, 1, found '0\.0'",
    "labels_scores": r"train\.tsv: the labels are 12 different numbers.*regression",
    "one_class": r"train\.tsv: expected at least two different labels",
    "pair_train_only": r"dev\.tsv:1: expected the columns of .*train\.tsv",
    "unseen_dev": r"dev\.tsv:\d+: label: expected one of neg, pos, found",
    "csv_named_csv": r"train\.tsv: no such file; beside it lies train\.csv",
    "gz_only": None,
    "labels50": None,
    "file_not_dir": None,
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_have_file_and_line(name: str) -> None:
    folder = require_shared(f"faults/labels/{name}")
    if REFUSED[name] is None:
        assert load(folder).labels
        return
    with pytest.raises(UsageError, match=REFUSED[name]):
        load(folder)


WARNED = {
    "dup_train_dev": "of 8 texts are in",
    "dup_conflict": "1 texts stand there with different labels",
    "labels_case": "'Positive' ",
    "labels_nfc_nfd": "differ in case, Unicode form",
    "nan_labels": "have the label 'NULL'",
    "pair_wrong_name": "columns that are not read: 'text_b'. If one of them",
    "extra_columns": "columns that are not read: 'id', 'note'",
}


@pytest.mark.parametrize("name", WARNED)
def test_what_is_suspicious_is_told(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = require_shared(f"faults/labels/{name}")
    # Labels of dev that train lacks are refused: train stands for both.
    data = load(
        folder,
        "data.directory=",
        f"data.train={folder / 'train.tsv'}",
        f"data.dev={folder / 'train.tsv'}",
    )
    assert data.labels
    assert WARNED[name] in capsys.readouterr().err.replace("8 of 8", "of 8")


def test_kinds_of_ones_own_tables(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        rows = ["text\tlabel", "one\ta,b", "two\tb", "three\ta", "four\ta,b"]
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    with pytest.raises(UsageError, match="'a,b' look like several classes"):
        load(tmp_path)
    assert load(tmp_path, "task.kind=multi_label").labels == ("a", "b")
    assert load(tmp_path, "task.kind=classification").labels == ("a", "a,b", "b")
    (tmp_path / "dev.tsv").write_text("text\tlabel\none\ta,c\n")
    with pytest.raises(UsageError, match=r"dev\.tsv:2: .*expected one of a, b, found"):
        load(tmp_path, "task.kind=multi_label")
    (tmp_path / "dev.tsv").write_text("text\tlabel\none\tnan\n")
    (tmp_path / "train.tsv").write_text("text\tlabel\none\t1.5\ntwo\t2\n")
    with pytest.raises(UsageError, match=r"dev\.tsv:2: .*finite number"):
        load(tmp_path, "task.kind=regression")


def test_a_data_set_of_the_hub_by_name(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(
            '{"text": "one", "label": "a"}\n{"text": "two", "label": "b"}\n'
        )
    data = load(
        tmp_path,
        "data.directory=",
        f"data.train=hf:{tmp_path}:train",
        f"data.dev=hf:{tmp_path}:test",
    )
    assert (data.labels, len(data.train), len(data.dev)) == (("a", "b"), 2, 2)
    with pytest.raises(UsageError, match="hf:NAME:SPLIT"):
        load(tmp_path, "data.directory=", "data.train=hf:x", "data.dev=hf:x")


def test_glue_is_read_from_its_directory() -> None:
    folder = require_shared("data/glue")
    data = load(folder, task="sts")
    assert (len(data.train), len(data.dev), data.labels) == (5749, 1500, ())
    data = load(folder / "CoLA", task="cola")
    assert (len(data.train), len(data.dev)) == (8551, 1043)
    assert data.labels == ("0", "1")
    with pytest.raises(UsageError, match=r"MNLI/train\.tsv: no such file"):
        load(folder, task="mnli")
