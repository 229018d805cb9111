"""The examples of a task, read and looked at before anything is trained."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.labelled_tables.checks import (
    look_like_scores,
    look_like_several,
    remarks_on_examples,
    remarks_on_labels,
)
from common.labelled_tables.examples import (
    LabelCheck,
    LabelledExample,
    LabelledTable,
    TableOptions,
    examples_of,
    number_problem,
    read_labelled_table,
    split_labels,
    unseen_labels,
)
from common.labelled_tables.lines import find_table
from training.finetuning import glue_files, tasks
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.hub_rows import PREFIX, read_hub_rows
from training.finetuning.question_tables import QuestionOptions, read_question_table
from training.finetuning.squad_files import Question, read_squad
from training.finetuning.tasks import Task


@dataclass(frozen=True)
class TaskData:
    """What a task is trained and measured on.

    Attributes:
        task: what is asked for.
        train: examples (or questions) to train on.
        dev: to measure on.
        more_dev: further parts to measure on (MNLI's mismatched one), by name.
        labels: the classes, in the order of their indices; none for numbers and spans.
        counts: what was left out or is suspicious.
    """

    task: Task
    train: Sequence[Any]
    dev: Sequence[Any]
    labels: tuple[str, ...] = ()
    more_dev: dict[str, Sequence[Any]] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, str]:
        """Returns hashes of the examples, by which a run is recognised."""
        return {
            "train_sha256": _digest(self.train),
            "dev_sha256": _digest(self.dev),
        }


def load(settings: FinetuneExperiment) -> TaskData:
    """Reads the task's files and warns of what is suspicious about them.

    Raises:
        UsageError: naming file and line of what is not as expected.
    """
    kind = settings.task.kind
    task = tasks.find(settings.task.name, "classification" if kind == "auto" else kind)
    if task.kind == "span":
        return _questions(settings, task)
    files, more = _paths(settings, task)
    tables = [_read(settings, task, file) for file in files]
    train, dev = tables
    if len(train.examples[0].texts) != len(dev.examples[0].texts):
        raise UsageError(
            f"{dev.file}:1: expected the columns of {train.file}, found "
            f"{len(dev.examples[0].texts)} columns of texts in place of "
            f"{len(train.examples[0].texts)}"
        )
    labels = _labels(settings, task, train, dev)
    counts, remarks = remarks_on_examples(
        train.file, train.examples, dev.file, dev.examples
    )
    if task.kind == "classification" and task.labels is None:
        for table in tables:
            names = [example.label for example in table.examples]
            remarks += remarks_on_labels(table.file, names)
    for remark in remarks:
        print(f"warning: {remark}", file=sys.stderr)
    return TaskData(
        task,
        train.examples,
        dev.examples,
        labels,
        {name: _read(settings, task, file).examples for name, file in more.items()},
        {
            **counts,
            "skipped_rows": train.skipped_rows + dev.skipped_rows,
            "ignored_columns": list(train.ignored_columns),
        },
    )


def multi_hot(cell: str, settings: FinetuneExperiment) -> list[str]:
    """Returns the classes of a cell of a multi-label table."""
    return split_labels(cell, settings.task.label_separator)


def _paths(
    settings: FinetuneExperiment, task: Task
) -> tuple[tuple[str, str], dict[str, str]]:
    """Returns the files of train and dev, and of further parts."""
    data = settings.data
    if data.train:
        return (data.train, data.dev), {}
    directory = Path(data.directory)
    if task.name in tasks.TABLES:
        named = (task.name,)
        train, dev = (find_table(directory, stem, named) for stem in ("train", "dev"))
        return (str(train), str(dev)), {}
    first, *others = glue_files.FILES[task.name].dev
    chosen = tuple(
        str(glue_files.place(directory, task.name, file))
        for file in ("train.tsv", first)
    )
    more = {
        Path(file).stem.removeprefix("dev_"): str(
            glue_files.place(directory, task.name, file)
        )
        for file in others
    }
    return (chosen[0], chosen[1]), more


def _read(settings: FinetuneExperiment, task: Task, file: str) -> LabelledTable:
    section = settings.task
    if task.name in tasks.GLUE:
        return glue_files.read_glue(
            Path(file), task.name, skip_bad_rows=section.skip_bad_rows
        )
    options = TableOptions(
        text_column=section.text_column,
        pair_column=section.pair_column or None,
        label_column=section.label_column,
        # The task names the format; a file named otherwise says so by its suffix.
        format=section.format if section.format != "auto" else _format(task, file),
        quoting=section.quoting,
        skip_bad_rows=section.skip_bad_rows,
    )
    check: LabelCheck | None = number_problem if task.kind == "regression" else None
    if file.startswith(PREFIX):
        return examples_of(read_hub_rows(file), options, check)
    return read_labelled_table(Path(file), options, check)


def _format(task: Task, file: str) -> str:
    known = (".tsv", ".csv", ".jsonl", ".ndjson")
    return "auto" if any(s in Path(file).suffixes for s in known) else task.name


def _labels(
    settings: FinetuneExperiment,
    task: Task,
    train: LabelledTable,
    dev: LabelledTable,
) -> tuple[str, ...]:
    """Returns the classes, alphabetical where the task does not say.

    Raises:
        UsageError: if there is only one, dev has one that train lacks, or the labels
            are no classes.
    """
    if task.kind == "regression":
        if len({float(example.label) for example in train.examples}) < 2:
            raise UsageError(f"{train.file}: expected numbers that differ, found one")
        return ()
    cells = [example.label for example in train.examples]
    if task.kind == "multi_label":
        names = sorted({name for cell in cells for name in multi_hot(cell, settings)})
        _check_several(train.file, names)
        unseen_labels(
            dev.file,
            [
                LabelledExample(example.texts, name, example.line)
                for example in dev.examples
                for name in multi_hot(example.label, settings)
            ],
            names,
        )
        return tuple(names)
    if task.labels is None and settings.task.kind == "auto":
        _check_classes(train.file, cells)
    names = list(task.labels or sorted(set(cells)))
    _check_several(train.file, sorted(set(cells)))
    unseen_labels(dev.file, dev.examples, names)
    return tuple(names)


def _check_several(file: str, names: Sequence[str]) -> None:
    if len(names) < 2:
        raise UsageError(
            f"{file}: expected at least two different labels, found {list(names)}"
        )


def _check_classes(file: str, cells: Sequence[str]) -> None:
    if look_like_scores(cells):
        raise UsageError(
            f"{file}: the labels are {len(set(cells))} different numbers, for example "
            f"{cells[0]}: expected classes. --kind regression predicts numbers; "
            "--kind classification makes each number a class"
        )
    if look_like_several(cells):
        example = next(cell for cell in cells if "," in cell)
        raise UsageError(
            f"{file}: cells such as {example!r} look like several classes. --kind "
            "multi_label takes them apart; --kind classification makes each cell one"
        )


def _questions(settings: FinetuneExperiment, task: Task) -> TaskData:
    skip = settings.task.skip_bad_rows
    parts: list[list[Question]] = []
    skipped = 0
    for stem, given in (("train", settings.data.train), ("dev", settings.data.dev)):
        if task.name in tasks.TABLES:
            named = (task.name,)
            file = given or str(find_table(Path(settings.data.directory), stem, named))
            questions, left_out = read_question_table(
                file, _question_options(settings, task, file)
            )
        else:
            path = Path(given) if given else _squad_file(settings, task, stem)
            questions, left_out = read_squad(
                path, unanswerable=task.name == "squad2", skip_bad_rows=skip
            )
        parts.append(questions)
        skipped += left_out
    train, dev = parts
    asked = {(question.question, question.context) for question in train}
    seen = sum((question.question, question.context) in asked for question in dev)
    if seen:
        print(
            f"warning: {seen} of {len(dev)} questions to measure on are trained on, "
            "with the same context: figures on them measure memory",
            file=sys.stderr,
        )
    counts = {"skipped_rows": skipped, "dev_questions_in_train": seen}
    return TaskData(task, train, dev, counts=counts)


def _question_options(
    settings: FinetuneExperiment, task: Task, file: str
) -> QuestionOptions:
    section = settings.task
    return QuestionOptions(
        section.question_column,
        section.context_column,
        section.answer_column,
        section.start_column,
        format=section.format if section.format != "auto" else _format(task, file),
        quoting=section.quoting,
        skip_bad_rows=section.skip_bad_rows,
    )


def _squad_file(settings: FinetuneExperiment, task: Task, stem: str) -> Path:
    directory = Path(settings.data.directory)
    version = {"squad1": "v1.1", "squad2": "v2.0"}[task.name]
    names = [f"{stem}-{version}.json", f"{stem}.json"]
    for name in (*names, *(f"{name}.gz" for name in names)):
        if (directory / name).is_file():
            return directory / name
    there = sorted(path.name for path in directory.glob("*"))[:8] or ["nothing"]
    raise UsageError(
        f"{directory / names[0]}: no such file (nor {names[1]}, nor compressed with "
        f".gz), found {', '.join(there)}"
    )


def _digest(examples: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        if isinstance(example, Question):
            cells = (example.question, example.context, *example.answers)
            cells = (*cells, str(example.answer_start))
        else:
            cells = (*example.texts, example.label)
        digest.update("\t".join(cells).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()
