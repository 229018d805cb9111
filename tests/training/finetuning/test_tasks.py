"""Reading tasks: rows as they are, and errors with file and line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.command_line import UsageError
from training.finetuning import tasks
from training.finetuning.tasks import Example

CELLS = st.text(
    st.characters(exclude_characters="\t\r\n\ufeff", exclude_categories=["Cs"]),
    min_size=1,
    max_size=20,
)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_quotes_mean_nothing_and_no_row_is_lost(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    file = tmp_path_factory.mktemp("tsv") / "train.tsv"
    rows = [f'"{text}\t{label}x' for text, label in pairs]
    file.write_bytes(("text\tlabel\n" + "\n".join(rows) + "\n").encode())
    assert tasks.read_tsv(file) == [
        Example((f'"{text}',), f"{label}x".strip()) for text, label in pairs
    ]


def test_pairs_and_columns_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "dev.tsv"
    file.write_text("label\ttext_pair\tid\ttext\r\nyes\tb\t1\ta\r\n")
    assert tasks.read_tsv(file) == [Example(("a", "b"), "yes")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sentence\tlabel\na\tb\n", r"dev\.tsv:1: expected a header"),
        (b"text\tlabel\na\tb\nc\n", r"dev\.tsv:3: expected 2 columns .* found 1"),
        (b"text\tlabel\na\t \n", r"dev\.tsv:2: expected a label"),
        (b"text\tlabel\n", "at least one example"),
        (b"text\tlabel\n\xff\tb\n", r"found byte 0xff at offset 11"),
    ],
)
def test_bad_files_are_named_with_their_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "dev.tsv"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        tasks.read_tsv(file)


def test_labels_must_be_known_and_several() -> None:
    a, b = Example(("x",), "a"), Example(("y",), "b")
    assert tasks.label_names([b, a], [a]) == ["a", "b"]
    with pytest.raises(UsageError, match="at least two different labels"):
        tasks.label_names([a], [a])
    with pytest.raises(UsageError, match="found b"):
        tasks.label_names([a, Example(("z",), "c")], [b])
    with pytest.raises(UsageError, match="columns of train"):
        tasks.label_names([a, b], [Example(("x", "y"), "a")])


def test_tasks_that_are_not_there_yet_say_so() -> None:
    with pytest.raises(UsageError, match="--task cola: not there yet"):
        tasks.find("cola")
    assert tasks.find("tsv").metric == "accuracy"
