"""The files of a submission to the GLUE server: written, zipped and checked."""

import io
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.files import write_bytes, write_text
from common.labelled_tables.bad_rows import BadRows
from training.finetuning.glue_files import place, read_glue
from training.finetuning.tasks import GLUE

ARCHIVE = "submission.zip"


@dataclass(frozen=True)
class Part:
    """A file of the submission.

    Attributes:
        file: its name.
        task: the task whose model predicts it.
        source: key of `glue_files.FILES` whose test file it answers.
        test: that file.
        rows: how many rows the official test set has.
    """

    file: str
    task: str
    source: str
    test: str
    rows: int


PARTS = (
    Part("CoLA.tsv", "cola", "cola", "test.tsv", 1063),
    Part("SST-2.tsv", "sst", "sst", "test.tsv", 1821),
    Part("MRPC.tsv", "mrpc", "mrpc", "test.tsv", 1725),
    Part("STS-B.tsv", "sts", "sts", "test.tsv", 1379),
    Part("QQP.tsv", "qqp", "qqp", "test.tsv", 390965),
    Part("MNLI-m.tsv", "mnli", "mnli", "test_matched.tsv", 9796),
    Part("MNLI-mm.tsv", "mnli", "mnli", "test_mismatched.tsv", 9847),
    Part("QNLI.tsv", "qnli", "qnli", "test.tsv", 5463),
    Part("RTE.tsv", "rte", "rte", "test.tsv", 3000),
    Part("WNLI.tsv", "wnli", "wnli", "test.tsv", 146),
    Part("AX.tsv", "mnli", "diagnostic", "diagnostic.tsv", 1104),
)
_FILLERS = {"rte": "entailment", "qnli": "entailment", "mnli": "entailment"}


def run(
    models: Mapping[str, Path], data: Path, output: Path, *, fill: bool
) -> dict[str, Any]:
    """Writes the submission's files and their archive.

    WNLI, which models of this kind do not learn, gets the class 0 where no model is
    given, as is usual.

    Args:
        models: task to the directory that `finetune` wrote.
        data: the GLUE archive's directory.
        output: where to write.
        fill: whether other tasks without a model or without a test file get one
            answer for every row, or 0 rows; then the archive is no fair submission.

    Returns:
        `output`, `archive`, `files` (rows of each), `filled`.

    Raises:
        UsageError: if a model or a file is missing or not of its task.
    """
    missing = sorted({p.task for p in PARTS if p.task not in (*models, "wnli")})
    if missing and not fill:
        raise UsageError(
            f"--model: expected a model of every task, found none of "
            f"{', '.join(missing)}. --fill writes one answer for all of their rows"
        )
    sources = {part: _source(part, data, fill) for part in PARTS}
    output.mkdir(parents=True, exist_ok=True)
    rows: dict[str, int] = {}
    filled: list[str] = []
    loaded: dict[str, Any] = {}
    for part in PARTS:
        source = sources[part]
        if source is None:
            filled.append(part.file)
            answers = [_filler(part.task)] * part.rows
        else:
            table = read_glue(source, part.source, labelled=False)
            texts = [example.texts for example in table.examples]
            if part.task in models:
                answers = _answers(loaded, models, part, texts)
            else:
                filled.append(part.file)
                answers = [_filler(part.task)] * len(texts)
        write_text(output / part.file, _tsv(answers))
        rows[part.file] = len(answers)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for part in PARTS:
            zipped.write(output / part.file, part.file)
    write_bytes(output / ARCHIVE, archive.getvalue())
    if filled:
        print(f"warning: one answer for all rows: {', '.join(filled)}", file=sys.stderr)
    return {
        "output": str(output),
        "archive": str(output / ARCHIVE),
        "files": rows,
        "filled": filled,
    }


def check(path: Path) -> dict[str, Any]:
    """Validates a submission: the archive, or the directory of its files.

    Returns:
        `files`: rows of each.

    Raises:
        UsageError: naming the file and the lines that are not as expected.
    """
    contents = _contents(path)
    missing = [part.file for part in PARTS if part.file not in contents]
    if missing:
        raise UsageError(f"{path}: expected {', '.join(missing)}, found none of them")
    rows = {}
    for part in PARTS:
        bad = BadRows(f"{path}/{part.file}")
        try:
            lines = contents[part.file].decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}/{part.file}: expected UTF-8: {error}") from None
        if lines[0] != "index\tprediction":
            bad.add(1, f"expected the header index, prediction, found {lines[0]!r}")
        for index, line in enumerate(lines[1:]):
            cells = line.split("\t")
            if len(cells) != 2 or cells[0] != str(index):
                bad.add(index + 2, f"expected index {index} and an answer: {line!r}")
            elif not _is_answer(part.task, cells[1]):
                bad.add(index + 2, f"expected {_expected(part.task)}: {cells[1]!r}")
        if len(lines) - 1 != part.rows:
            bad.add(len(lines), f"expected {part.rows} rows, found {len(lines) - 1}")
        bad.settle(skip=False)
        rows[part.file] = len(lines) - 1
    return {"files": rows}


def _answers(
    loaded: dict[str, Any],
    models: Mapping[str, Path],
    part: Part,
    texts: list[tuple[str, ...]],
) -> list[str]:
    from training.finetuning.trained import load_trained, outputs_of

    if part.task not in loaded:
        trained = load_trained(models[part.task])
        if trained.provenance.get("task") != part.task:
            raise UsageError(
                f"--model {part.task}={models[part.task]}: expected a model of "
                f"{part.task}, found one of {trained.provenance.get('task')}"
            )
        loaded[part.task] = trained
    trained = loaded[part.task]
    outputs, remarks = outputs_of(trained, texts, part.file)
    for remark in remarks:
        print(f"warning: {remark}", file=sys.stderr)
    if trained.kind == "regression":  # scores of STS are from 0 to 5
        return [f"{min(5.0, max(0.0, float(value))):.3f}" for value in outputs[:, 0]]
    return [trained.model.labels[int(index)] for index in outputs.argmax(axis=-1)]


def _source(part: Part, data: Path, fill: bool) -> Path | None:
    try:
        return place(data, part.source, part.test)
    except UsageError:
        if fill:
            return None
        raise


def _filler(task: str) -> str:
    return "2.500" if task == "sts" else _FILLERS.get(task, "0")


def _tsv(answers: Sequence[str]) -> str:
    rows = [f"{index}\t{answer}\n" for index, answer in enumerate(answers)]
    return "index\tprediction\n" + "".join(rows)


def _contents(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {p.name: p.read_bytes() for p in path.glob("*.tsv")}
    try:
        with zipfile.ZipFile(path) as zipped:
            return {name: zipped.read(name) for name in zipped.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{path}: expected a submission's zip archive or directory: {error}"
        ) from None


def _is_answer(task: str, answer: str) -> bool:
    labels = GLUE[task].labels
    if labels is not None:
        return answer in labels
    return bool(re.fullmatch(r"\d+(\.\d+)?", answer)) and float(answer) <= 5


def _expected(task: str) -> str:
    labels = GLUE[task].labels
    return "a score from 0 to 5" if labels is None else f"one of {', '.join(labels)}"
