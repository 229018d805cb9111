"""What is suspicious about labelled texts is counted and told."""

from common.labelled_tables.checks import (
    conflicting_texts,
    look_like_scores,
    look_like_several,
    overlap,
    remarks_on_examples,
    remarks_on_labels,
)
from common.labelled_tables.examples import LabelledExample


def rows(*pairs: tuple[str, str]) -> list[LabelledExample]:
    return [LabelledExample((text,), label) for text, label in pairs]


def test_overlap_and_conflicts_are_counted() -> None:
    train = rows(("a", "x"), ("b", "y"), ("b", "x"), ("c", "x"))
    dev = rows(("a ", "x"), ("b", "z"), ("d", "x"))
    assert overlap(train, dev) == (2, 1)
    assert conflicting_texts(train) == 1
    counts, remarks = remarks_on_examples("train.tsv", train, "dev.tsv", dev)
    assert counts["dev_texts_in_train"] == 2
    assert any("2 of 3 texts are in train.tsv too (1 with" in r for r in remarks)
    assert any("train.tsv: 1 texts stand there" in r for r in remarks)
    assert any("3 rows" in r for r in remarks)
    many = rows(*((str(i), "x") for i in range(40)))
    assert remarks_on_examples("t", train[:1], "d", many)[1] == []


def test_labels_that_may_be_one_class_are_told() -> None:
    remarks = remarks_on_labels(
        "t", ["Good", "good", "caf\u00e9", "cafe\u0301", "nan", "NULL", "bad"]
    )
    assert len(remarks) == 4
    assert "'Good' (1 rows), 'good' (1 rows)" in remarks[0]
    assert remarks_on_labels("t", ["a", "b"]) == []


def test_scores_and_several_labels_are_told_from_classes() -> None:
    assert look_like_scores([f"{i / 8}" for i in range(9)])
    assert look_like_scores([str(i) for i in range(50)])
    assert not look_like_scores(["0", "1", "2", "10"])
    assert not look_like_scores(["0.0", "1.0"])
    assert not look_like_scores(["1.5", "b"])
    assert look_like_several(["a", "b", "a,b"])
    assert look_like_several(["a,b", "b,c", "a,c", "a,b,c"])
    assert not look_like_several(["very good, really", "bad"])
