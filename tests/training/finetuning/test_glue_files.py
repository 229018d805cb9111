"""The original files of GLUE: every row is kept, malformed ones are named."""

import re
from pathlib import Path

import pytest

from common.command_line import UsageError
from tests.paths import require_shared
from training.finetuning.glue_files import FILES, place, read_glue
from training.finetuning.tasks import GLUE


def _source_rows() -> dict[str, int]:
    text = require_shared("data/SOURCES.md").read_text()
    found = re.findall(r"^\| glue/(\S+\.tsv) \| (\d+) rows", text, re.MULTILINE)
    return {name: int(count) for name, count in found}


def test_row_counts_are_those_of_the_sources() -> None:
    folder = require_shared("data/glue")
    by_folder = {files.folder: task for task, files in FILES.items()}
    counted = 0
    for name, rows in _source_rows().items():
        task_folder, file = name.split("/")
        if file.startswith(("original", "dev_ids")):
            continue  # not files of GLUE tasks
        task = by_folder[task_folder]
        labelled = not file.startswith(("test", "diagnostic"))
        table = read_glue(folder / name, task, labelled=labelled)
        assert len(table.examples) == rows, name
        assert all(len(e.texts) == len(FILES[task].texts) for e in table.examples)
        counted += 1
    assert counted >= 25


def test_texts_and_labels_are_those_of_the_rows() -> None:
    folder = require_shared("data/glue")
    mrpc = read_glue(place(folder, "mrpc", "dev.tsv"), "mrpc").examples
    assert mrpc[0].label == "1"
    assert mrpc[0].texts[1].startswith('" The foodservice pie business')
    sts = read_glue(place(folder / "STS-B", "sts", "dev.tsv"), "sts").examples
    assert (sts[0].label, sts[0].line) == ("5.000", 2)
    cola = read_glue(place(folder, "cola", "train.tsv"), "cola").examples
    assert cola[0].texts == (
        "Our friends won't buy this analysis, let alone the next one we propose.",
    )
    assert {e.label for e in cola} == set(GLUE["cola"].labels or ())
    with pytest.raises(UsageError, match=r"STS-B/none\.tsv: no such file"):
        place(folder, "sts", "none.tsv")


STS = "\t".join(f"c{i}" for i in range(7)) + "\tsentence1\tsentence2\tscore"
ROW = "\t".join(["x"] * 9)


def test_t05_a_short_row_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.tsv"
    file.write_text(f"{STS}\n{ROW}\t3.5\r\n{ROW}\n{ROW}\thigh\n{ROW}\tnan\n")
    with pytest.raises(UsageError) as raised:
        read_glue(file, "sts")
    message = str(raised.value)
    assert f"{file}:3: expected 10 columns separated by tabs, found 9" in message
    assert f"{file}:4: label: expected a number, found 'high'" in message
    assert f"{file}:5: label: expected a finite number" in message
    assert "3 bad rows" in message
    table = read_glue(file, "sts", skip_bad_rows=True)
    assert ([e.label for e in table.examples], table.skipped_rows) == (["3.5"], 3)
    assert "3 bad rows are left out" in capsys.readouterr().err


def test_d11_quotes_are_text(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    texts = ['" one', 'two "', '"three"', "don't \"", '""']
    rows = "".join(f"{text}\t1\r\n" for text in texts)
    file.write_bytes(b"\xef\xbb\xbf" + f"sentence\tlabel\r\n{rows}".encode())
    assert [e.texts[0] for e in read_glue(file, "sst").examples] == texts
    file.write_text("sentence\tlabel\na\t2\n")
    with pytest.raises(UsageError, match=r"train\.tsv:2: label: expected one of 0, 1"):
        read_glue(file, "sst")
