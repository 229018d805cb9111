"""The original files of GLUE: which columns of which file, every row kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.examples import (
    LabelCheck,
    LabelledExample,
    LabelledTable,
    known_label,
    number_problem,
)
from common.labelled_tables.lines import read_lines
from training.finetuning.tasks import GLUE


@dataclass(frozen=True)
class GlueFiles:
    """Where a task's rows lie.

    Attributes:
        folder: its folder in the GLUE archive.
        texts: names of the columns of texts.
        label: name of the column of labels.
        dev: files to measure on, the one that counts first.
        test: files to predict, as the submission calls them: name to file.
        columns: names of the columns of training and dev files without a header.
    """

    folder: str
    texts: tuple[str, ...]
    label: str = "label"
    dev: tuple[str, ...] = ("dev.tsv",)
    test: tuple[str, ...] = ("test.tsv",)
    columns: tuple[str, ...] = ()


_SENTENCES = ("sentence1", "sentence2")
FILES: Mapping[str, GlueFiles] = {
    "cola": GlueFiles(
        "CoLA", ("sentence",), columns=("source", "label", "note", "sentence")
    ),
    "mrpc": GlueFiles("MRPC", ("#1 String", "#2 String"), "Quality"),
    "mnli": GlueFiles(
        "MNLI",
        _SENTENCES,
        "gold_label",
        ("dev_matched.tsv", "dev_mismatched.tsv"),
        ("test_matched.tsv", "test_mismatched.tsv"),
    ),
    "sst": GlueFiles("SST-2", ("sentence",)),
    "rte": GlueFiles("RTE", _SENTENCES),
    "qnli": GlueFiles("QNLI", ("question", "sentence")),
    "qqp": GlueFiles("QQP", ("question1", "question2"), "is_duplicate"),
    "sts": GlueFiles("STS-B", _SENTENCES, "score"),
    "wnli": GlueFiles("WNLI", _SENTENCES),
    "diagnostic": GlueFiles("diagnostic", _SENTENCES, test=("diagnostic.tsv",)),
}


def place(directory: Path, task: str, file: str) -> Path:
    """Returns the path of a task's file, in the GLUE archive or in the task's folder.

    Raises:
        UsageError: if it is in neither.
    """
    inner = directory / FILES[task].folder / file
    for path in (inner, directory / file):
        if path.is_file():
            return path
    there = sorted(p.name for p in directory.glob("*"))[:8] or ["nothing"]
    raise UsageError(
        f"{inner}: no such file, nor {directory / file}. Expected the files of GLUE as "
        f"published, found {', '.join(there)} in {directory}"
    )


def read_glue(
    path: Path, task: str, *, labelled: bool = True, skip_bad_rows: bool = False
) -> LabelledTable:
    """Reads a file of GLUE; quotes are text, and texts may be empty.

    Args:
        path: the file.
        task: its task, a key of `FILES`.
        labelled: whether it has labels (test files have none).
        skip_bad_rows: whether malformed rows are left out and counted.

    Raises:
        UsageError: naming the file and the lines that are not as expected.
    """
    files = FILES[task]
    bad = BadRows(str(path))
    lines = read_lines(path, bad)
    if not lines:
        bad.settle(skip=False)
        raise UsageError(f"{path}: expected rows, found an empty file")
    header = [name.strip() for name in lines[0].text.split("\t")]
    wanted = [*files.texts, *([files.label] if labelled else [])]
    first = 1
    if labelled and files.columns and not set(files.texts) <= set(header):
        header, first = list(files.columns), 0
    missing = [name for name in wanted if name not in header]
    if missing:
        raise UsageError(
            f"{path}:1: expected a header with the columns {', '.join(wanted)}, found "
            f"{', '.join(map(repr, header))}"
        )
    columns = [header.index(name) for name in wanted]
    check = _label_check(task) if labelled else None
    examples = []
    for line in lines[first:]:
        cells = line.text.split("\t")
        if cells == [""]:
            continue
        if len(cells) != len(header):
            bad.add(
                line.number,
                f"expected {len(header)} columns separated by tabs, found {len(cells)}",
            )
            continue
        label = cells[columns[-1]].strip() if labelled else ""
        problem = check(label) if check else None
        if problem:
            bad.add(line.number, problem)
            continue
        texts = tuple(cells[column] for column in columns[: len(files.texts)])
        examples.append(LabelledExample(texts, label, line.number))
    skipped = bad.settle(
        skip=skip_bad_rows, hint="--skip-bad-rows leaves such rows out and counts them"
    )
    if not examples:
        raise UsageError(f"{path}: expected at least one row, found none")
    return LabelledTable(str(path), examples, (), skipped, "none")


def _label_check(task: str) -> LabelCheck:
    labels = GLUE[task].labels
    return number_problem if labels is None else known_label(labels)
