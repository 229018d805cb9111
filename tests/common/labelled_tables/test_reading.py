"""The one reader of labelled tables: what it reads whole, and what it refuses."""

import csv
import gzip
import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.command_line import UsageError
from common.labelled_tables.examples import (
    LabelledExample,
    TableOptions,
    known_label,
    number_problem,
    read_labelled_table,
    split_labels,
    unseen_labels,
)
from common.labelled_tables.lines import find_table
from common.labelled_tables.table import read_table
from tests.paths import require_shared

CELLS = st.text(
    st.characters(exclude_characters="\t\r\n\ufeff", exclude_categories=["Cs"]),
    min_size=1,
    max_size=20,
).filter(lambda text: text.strip())


def read(path: Path, **options: object) -> list[LabelledExample]:
    return read_labelled_table(path, TableOptions(**options)).examples  # type: ignore[arg-type]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_without_quoting_no_character_and_no_row_is_lost(
    tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    file = tmp_path / "train.tsv"
    rows = [f'"{text}\t{label}x' for text, label in pairs]
    file.write_bytes(("text\tlabel\n" + "\n".join(rows) + "\n").encode())
    assert read(file, quoting="none") == [
        LabelledExample((f'"{text}',), f"{label}x".strip()) for text, label in pairs
    ]


ANY = st.text(
    st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), max_size=12
).filter(lambda text: text.strip())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANY, min_size=1, max_size=6), st.sampled_from(["csv", "tsv"]))
def test_what_pandas_writes_is_read_back(
    tmp_path: Path, texts: list[str], suffix: str
) -> None:
    frame = pd.DataFrame({"text": texts, "label": ["a"] * len(texts)})
    file = tmp_path / f"train.{suffix}"
    frame.to_csv(file, sep="," if suffix == "csv" else "\t", index=False)
    found = [example.texts[0] for example in read(file, quoting="standard")]
    assert found == texts
    buffer = io.StringIO()
    frame.to_json(buffer, orient="records", lines=True)
    (tmp_path / "train.jsonl").write_text(buffer.getvalue())
    assert [e.texts[0] for e in read(tmp_path / "train.jsonl")] == texts


def test_quoting_is_found_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.tsv"
    frame = pd.DataFrame(
        {"text": ['he said "good"', "a\tb", "c"], "label": list("xyx")}
    )
    frame.to_csv(file, sep="\t", index=False)
    assert [e.texts[0] for e in read(file)] == ['he said "good"', "a\tb", "c"]
    assert "read as wrapping cells" in capsys.readouterr().err
    frame.to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_ALL)
    assert [e.texts[0] for e in read(file)] == ['he said "good"', "a\tb", "c"]
    # D11: cells that begin with quotes, odd and even numbers of them, are text.
    texts = ['"begins with a quote', 'odd " number of " quotes "', "'", '"quoted"']
    file.write_text("text\tlabel\n" + "".join(f"{text}\tyes\n" for text in texts))
    capsys.readouterr()
    assert [e.texts[0] for e in read(file)] == texts
    assert "read as text" in capsys.readouterr().err


def test_columns_by_name_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv.gz"
    content = b"\xef\xbb\xbflabel\tb\tid\ta\r\nyes\ttwo\t1\t one \r\n"
    path.write_bytes(gzip.compress(content))
    options = TableOptions(text_column="a", pair_column="b")
    table = read_labelled_table(path, options)
    assert table.examples == [LabelledExample((" one ", "two"), "yes")]
    assert table.examples[0].line == 2
    assert table.ignored_columns == ("id",)
    assert read(path, text_column="a") == [LabelledExample((" one ",), "yes")]


def test_jsonl_values_that_are_no_strings(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a", "label": 1}\n\n{"label": 2.5, "text": "b"}\n')
    assert read(path) == [LabelledExample(("a",), "1"), LabelledExample(("b",), "2.5")]
    path.write_text('{"text": "a", "label": 1}\n{"text": null, "label": 1}\n[1]\n')
    with pytest.raises(
        UsageError, match=r"x\.jsonl:3: expected a JSON(.|\n)*:2: expec"
    ):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sentence\tlabel\na\tb\n", r"x\.tsv:1: expected a header.*'sentence'"),
        (b"Text\tlabel\na\tb\n", r"with their case: 'Text'"),
        (b"text,label\na,b\n", r"x\.tsv:1: expected .* a tab, found .* a comma"),
        (b"text\ttext\tlabel\na\tb\tc\n", r"x\.tsv:1: .* found twice: 'text'"),
        (b"text\tlabel\na\tb\nc\n", r"x\.tsv:3: expected 2 columns .* found 1"),
        (b"text\tlabel\na\tb\tc\n", r"x\.tsv:2: expected 2 columns .* found 3"),
        (b"text\tlabel\na\t \n", r"x\.tsv:2: expected a label"),
        (b"text\tlabel\n \tb\n", r"x\.tsv:2: expected a text"),
        (b"text\tlabel\n", "at least one row"),
        (b"", "found an empty file"),
        (b"text\tlabel\na\tb\n\xff\tb\n", r"x\.tsv:3: .* byte 0xff at byte 1"),
        ("text\tlabel\na\tb\n".encode("utf-16"), r"x\.tsv:1: .* found UTF-16"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read(path)


def test_ten_bad_rows_are_named_and_all_are_counted_or_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\n" + "a\tb\n" + "c\n" * 13)
    with pytest.raises(UsageError) as raised:
        read(path)
    message = str(raised.value)
    assert message.count("expected 2 columns") == 10
    assert "x.tsv:12:" in message
    assert "and 3 more" in message
    assert "13 bad rows" in message
    table = read_labelled_table(path, TableOptions(skip_bad_rows=True))
    assert (len(table.examples), table.skipped_rows) == (1, 13)
    assert "13 bad rows are left out" in capsys.readouterr().err


def test_what_lies_beside_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,b\n")
    with pytest.raises(UsageError, match=r"train\.tsv: no such file.*train\.csv"):
        find_table(tmp_path, "train", ("tsv",))
    assert find_table(tmp_path, "train").name == "train.csv"
    (tmp_path / "train.tsv.gz").write_bytes(b"")
    with pytest.raises(UsageError, match=r"expected one file of train"):
        find_table(tmp_path, "train")
    with pytest.raises(UsageError, match="cannot be decompressed|empty file"):
        read_table(tmp_path / "train.tsv.gz")


def test_labels_are_checked_and_split() -> None:
    assert number_problem("1e3") is None
    for text in ("nan", "inf", "good", ""):
        assert number_problem(text)
    assert known_label(["a"])("a") is None
    assert "expected one of a" in (known_label(["a"])("b") or "")
    assert split_labels("a, b,") == ["a", "b"]
    assert split_labels('["a, b", "c"]') == ["a, b", "c"]
    with pytest.raises(UsageError, match=r"dev\.tsv:7: .*training examples lack"):
        unseen_labels("dev.tsv", [LabelledExample(("x",), "b", 7)], ["a"])


READ_WHOLE = {
    "bom": 8, "cr_only": 8, "crlf": 8, "dup_conflict": 8, "empty_dev": 8,
    "extra_columns": 8, "gz_only": 8, "labels_case": None, "long_text": 9,
    "nul_and_u2028": 11, "pair": 8, "pair_other_order": 8, "stray_ws_line": 8,
    "tsv_pandas_newline": 9, "tsv_pandas_newline_label_first": 9,
    "tsv_pandas_quotes": 10, "tsv_pandas_quotes_only": 10, "unescaped_quotes": 10,
    "csv_named_csv": 8, "labels_scores": 12, "inner_cr": 9, "trailing_space_label": 8,
}  # fmt: skip
REFUSED = {
    "csv_named_tsv": r"train\.tsv:1: .*a comma",
    "empty_file": r"train\.tsv: .*empty file",
    "empty_text": r"train\.tsv:10: expected a text",
    "extra_cell_in_a_row": r"train\.tsv:\d+: expected 2 columns .* found 3",
    "header_case": r"train\.tsv:1: .*'Text'",
    "header_sentence": r"train\.tsv:1: .*'sentence'",
    "header_twice": r"train\.tsv:1: .*twice",
    "latin1": r"train\.tsv:\d+: expected UTF-8, found byte",
    "missing_label_cell": r"train\.tsv:10: expected 2 columns .* found 1",
    "missing_label_empty": r"train\.tsv:\d+: expected a label",
    "no_header": r"train\.tsv:1: expected a header",
    "only_header": r"train\.tsv: expected at least one row",
    "utf16": r"train\.tsv:1: .*UTF-16",
}


@pytest.mark.parametrize("name", READ_WHOLE)
def test_files_that_people_have_are_read_whole(name: str) -> None:
    folder = require_shared(f"faults/labels/{name}")
    examples = read(find_table(folder, "train"))
    if READ_WHOLE[name] is not None:
        assert len(examples) == READ_WHOLE[name]


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused_name_the_place(name: str) -> None:
    folder = require_shared(f"faults/labels/{name}")
    with pytest.raises(UsageError, match=REFUSED[name]):
        read(find_table(folder, "train"))


def test_semicolons_of_a_spreadsheet_are_told(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("text;label\na;b\n")
    with pytest.raises(UsageError, match=r"csv:1: .*a semicolon\. Save it with commas"):
        read(file)
