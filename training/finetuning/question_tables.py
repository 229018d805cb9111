"""Questions in a table of one's own, or in a data set of the Hugging Face hub."""

import json
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.labelled_tables.table import Row, Table, read_table
from training.finetuning.hub_rows import PREFIX, read_hub_rows
from training.finetuning.squad_files import Question, problem_of, settle

_ALL_ANSWERS = "answers"
"""Column in which data sets of the hub keep ``{"text": [...], "answer_start": [...]}``,
as SQuAD does."""


@dataclass(frozen=True)
class QuestionOptions:
    """How a table of questions is read.

    Attributes:
        question_column: name of the column of questions.
        context_column: name of the column of texts that may hold the answers.
        answer_column: name of the column of answers; an empty one means none.
        start_column: name of the column of the characters where answers stand.
        format: see `read_table`.
        quoting: see `read_table`.
        skip_bad_rows: whether rows that are not as expected are left out and counted.
        answered: whether there must be a column of answers.
    """

    question_column: str = "question"
    context_column: str = "context"
    answer_column: str = "answer"
    start_column: str = "answer_start"
    format: str = "auto"
    quoting: str = "auto"
    skip_bad_rows: bool = False
    answered: bool = True


def read_question_table(
    file: str | Path, options: QuestionOptions
) -> tuple[list[Question], int]:
    """Reads the questions of a table; a column ``id`` names them, else their lines do.

    Without a column of starts an answer must stand in its context once. In place of the
    column of answers there may be one called ``answers`` of JSON objects with the lists
    ``text`` and ``answer_start``.

    Args:
        file: the table, maybe compressed, or ``hf:NAME:SPLIT``.
        options: how to read it.

    Returns:
        The questions, and how many rows were left out.

    Raises:
        UsageError: naming the file and the lines that are not as expected.
    """
    if str(file).startswith(PREFIX):
        table = read_hub_rows(str(file))
    else:
        table = read_table(Path(file), format=options.format, quoting=options.quoting)
    if not table.header:
        table.bad.settle(skip=False)
        raise UsageError(f"{table.file}: expected at least one row, found none")
    several = _check_header(table, options)
    places = {name: place for place, name in enumerate(table.header)}
    questions: list[Question] = []
    seen: set[str] = set()
    for row in table.rows:
        cells = {name: row.cells[place] for name, place in places.items()}
        try:
            answers, start = (
                _listed_answers(cells[_ALL_ANSWERS])
                if several
                else _single_answer(cells, options)
            )
        except ValueError as error:
            table.bad.add(row.line, str(error))
            continue
        question = Question(
            _id(cells, row),
            cells[options.question_column],
            cells[options.context_column],
            answers,
            start,
        )
        problem = problem_of(question, True)
        if question.id in seen:
            problem = f"the id {question.id!r} stands twice"
        seen.add(question.id)
        if problem:
            table.bad.add(row.line, problem)
        else:
            questions.append(question)
    return questions, settle(table.file, questions, table.bad, options.skip_bad_rows)


def _check_header(table: Table, options: QuestionOptions) -> bool:
    """Returns whether answers stand in one column of lists.

    Raises:
        UsageError: naming the columns that are missing.
    """
    wanted = [options.question_column, options.context_column]
    several = options.answer_column not in table.header and _ALL_ANSWERS in table.header
    if options.answered and not several:
        wanted.append(options.answer_column)
    if any(name not in table.header for name in wanted):
        raise UsageError(
            f"{table.file}:1: expected the columns {', '.join(wanted)} and maybe "
            f"{options.start_column} and id, found {', '.join(table.header)}. Other "
            "names are given as options: the columns of question, context and answer"
        )
    return several


def _id(cells: dict[str, str], row: Row) -> str:
    return cells.get("id", "").strip() or str(row.line)


def _single_answer(
    cells: dict[str, str], options: QuestionOptions
) -> tuple[tuple[str, ...], int]:
    answer = cells.get(options.answer_column, "")
    if not answer:
        return (), -1
    given = cells.get(options.start_column, "").strip()
    if given:
        try:
            return (answer,), int(given)
        except ValueError:
            raise ValueError(
                f"{options.start_column}: expected a whole number, found {given!r}"
            ) from None
    context = cells[options.context_column]
    count = context.count(answer)
    if count > 1:
        raise ValueError(
            f"the answer {answer[:40]!r} stands {count} times in the context: expected "
            f"a column {options.start_column} that says which is meant"
        )
    if not count:
        raise ValueError(f"the answer {answer[:40]!r} is not in the context")
    return (answer,), context.index(answer)


def _listed_answers(cell: str) -> tuple[tuple[str, ...], int]:
    try:
        content = json.loads(cell or "{}")
        texts = tuple(str(text) for text in content.get("text", ()))
        starts = [int(start) for start in content.get("answer_start", ())]
    except (ValueError, TypeError, AttributeError):
        texts, starts = (), [0]
    if len(texts) != len(starts):
        raise ValueError(
            f"{_ALL_ANSWERS}: expected an object with the lists text and answer_start "
            f"of one length, found {cell[:60]!r}"
        )
    return texts, starts[0] if starts else -1
