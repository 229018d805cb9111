"""Questions, contexts and answers, and the JSON files of SQuAD that hold them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.lines import read_bytes


@dataclass(frozen=True)
class Question:
    """A question about a context.

    Attributes:
        id: of the question.
        question: its text.
        context: the text that may hold the answer.
        answers: the right answers; none where the context holds none.
        answer_start: the character of the context where the first answer stands; -1.
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...] = ()
    answer_start: int = -1


def read_squad(
    path: Path, *, unanswerable: bool = True, skip_bad_rows: bool = False
) -> tuple[list[Question], int]:
    """Reads a JSON file of SQuAD 1.1 or 2.0, maybe compressed.

    Args:
        path: the file.
        unanswerable: whether questions without answer may be there (2.0).
        skip_bad_rows: whether questions that are not as expected are left out.

    Returns:
        The questions, and how many were left out.

    Raises:
        UsageError: naming the file and the questions that are not as expected.
    """
    try:
        content = json.loads(read_bytes(path).decode("utf-8-sig"))
        articles = content["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: expected a JSON object with the articles of SQuAD under 'data', "
            f"found none ({error})"
        ) from None
    bad = BadRows(str(path))
    questions: list[Question] = []
    seen: set[str] = set()
    for a, article in enumerate(articles):
        for p, paragraph in enumerate(_list(article, "paragraphs")):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for q, entry in enumerate(_list(paragraph, "qas")):
                where = f"article {a + 1}, paragraph {p + 1}, question {q + 1}"
                question = _question(entry, context, where, bad)
                if question is None:
                    continue
                problem = problem_of(question, unanswerable)
                if question.id in seen:
                    problem = "its id stands twice"
                seen.add(question.id)
                if problem:
                    bad.add(f"question {question.id}", problem)
                else:
                    questions.append(question)
    return questions, settle(str(path), questions, bad, skip_bad_rows)


def settle(file: str, questions: list[Question], bad: BadRows, skip: bool) -> int:
    """Returns how many questions were left out.

    Raises:
        UsageError: naming the bad ones unless they are skipped, or if none is left.
    """
    skipped = bad.settle(
        skip=skip, hint="--skip-bad-rows leaves such questions out and counts them"
    )
    if not questions:
        raise UsageError(f"{file}: expected at least one question, found none")
    return skipped


def _list(holder: Any, name: str) -> list[Any]:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, list) else []


def _question(entry: Any, context: Any, where: str, bad: BadRows) -> Question | None:
    try:
        answers = [] if entry.get("is_impossible") else entry.get("answers", [])
        question = Question(
            str(entry["id"]),
            entry["question"],
            context,
            tuple(answer["text"] for answer in answers),
            int(answers[0]["answer_start"]) if answers else -1,
        )
        texts = (question.question, question.context, *question.answers)
        if all(isinstance(text, str) for text in texts):
            return question
        reason = "its texts are not all strings"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
    bad.add(where, f"expected id, question, context and answers, found none: {reason}")
    return None


def problem_of(question: Question, unanswerable: bool) -> str | None:
    """Says what is wrong with a question, or None.

    Args:
        question: to look at.
        unanswerable: whether it may have no answer.
    """
    if not question.question.strip() or not question.context.strip():
        return "expected a question and a context, found an empty text"
    if not question.answers:
        return None if unanswerable else "expected an answer, found none"
    answer, start = question.answers[0], question.answer_start
    if not answer.strip():
        return "expected an answer, found an empty text"
    if not 0 <= start < len(question.context):
        return (
            f"the answer {answer[:40]!r} is not in the context: answer_start is "
            f"{start}, the context has {len(question.context)} characters"
        )
    there = question.context[start : start + len(answer)]
    if there != answer:
        return (
            f"expected the answer {answer[:40]!r} at character {start} of the context, "
            f"found {there[:40]!r}"
        )
    return None
