"""Labelled texts: reading, refusals, the division."""

import gzip
from pathlib import Path

import pytest

from common.command_line import UsageError
from training.data.labelled import (
    LabelledText,
    label_names,
    read_labelled,
    split_labelled,
    write_corpus,
    write_labelled,
)


def test_quotes_are_text(tmp_path: Path) -> None:
    """D11: as many examples as lines below the header, text unchanged."""
    texts = ['"begins with a quote', 'odd " number of " quotes "', "'", '"quoted"']
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{text}\tyes\n" for text in texts))
    assert [row.text for row in read_labelled(path)] == texts


def test_columns_may_be_in_any_order_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbflabel\tid\ttext\r\nyes\t1\tfine\r\n"))
    assert read_labelled(path) == [LabelledText("fine", "yes")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("texts\tlabel\na\tb\n", r"x\.tsv:1: expected a header.*'texts'"),
        ("text\tlabel\na\tb\nc\n", r"x\.tsv:3: expected 2 columns.*found 1"),
        ("text\tlabel\na\tb\tc\n", r"x\.tsv:2: expected 2 columns.*found 3"),
        ("text\tlabel\n \tb\n", r"x\.tsv:2: expected a text"),
        ("text\tlabel\na\t\n", r"x\.tsv:2: expected a label"),
        ("text\tlabel\n", r"x\.tsv: expected at least one row"),
        ("", r"x\.tsv: .*empty file"),
        (b"text\tlabel\na\t\xff\n", r"x\.tsv:2: expected UTF-8"),
    ],
)
def test_errors_name_the_line(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message):
        read_labelled(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.tsv: no such file"):
        read_labelled(tmp_path / "none.tsv")


def test_written_files_are_read_back(tmp_path: Path) -> None:
    rows = [LabelledText('one "line"\nand\tanother', "a"), LabelledText("x", "b")]
    write_labelled(tmp_path / "x.tsv", rows)
    assert read_labelled(tmp_path / "x.tsv") == [
        LabelledText('one "line" and another', "a"),
        LabelledText("x", "b"),
    ]
    write_corpus(tmp_path / "x.txt", (row.text for row in rows))
    assert (tmp_path / "x.txt").read_text() == 'one "line"\nand\tanother\n\nx\n\n'
    assert label_names(reversed(rows)) == ["a", "b"]


def test_division_depends_on_the_text_alone() -> None:
    rows = [LabelledText(f"text {number % 500}", "a") for number in range(1000)]
    train, held = split_labelled(rows, 0.2)
    assert len(train) + len(held) == 1000
    # Binomial with 500 different texts: five standard errors are 0.09.
    assert abs(len(held) / 1000 - 0.2) < 0.09
    assert {row.text for row in train}.isdisjoint(row.text for row in held)
    assert split_labelled(rows[::-1], 0.2)[1] == held[::-1]
    with pytest.raises(UsageError, match="leaves a part empty"):
        split_labelled(rows[:1], 0.2)
