"""The files of a submission to SQuAD: written and checked."""

import json
import math
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.compression import split_suffixes
from common.files import write_text
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.lines import FORMATS
from training.finetuning.question_tables import QuestionOptions, read_question_table
from training.finetuning.squad_files import Question, read_squad
from training.metrics.squad import evaluate_v1, evaluate_v2

PREDICTIONS = "predictions.json"
NULL_ODDS = "null_odds.json"


def run(
    model: Path,
    data: Path,
    output: Path,
    threshold: float | None,
    columns: QuestionOptions | None = None,
) -> dict[str, Any]:
    """Answers a file of questions.

    Args:
        model: directory that `finetune` wrote for SQuAD.
        data: questions with answers or without: a JSON file of SQuAD, or a table (by
            its suffix).
        output: where to write the answers, and the scores of "no answer".
        threshold: above it a question is answered by ""; None takes the one that was
            best on dev when the model was trained (none for SQuAD 1.1).
        columns: how to read a table.

    Returns:
        `questions`, `question_tokens_cut`, `unanswered`, `threshold`, `output`, and
        the official figures if the file has answers.

    Raises:
        UsageError: if model or file is not as expected.
    """
    from training.finetuning.spans import cut_question_tokens, predict_answers
    from training.finetuning.trained import load_trained

    trained = load_trained(model)
    if trained.kind != "span":
        raise UsageError(
            f"--model {model}: expected a model that answers questions, found one of "
            f"the task {trained.provenance.get('task')}"
        )
    questions = _questions(data, columns)
    if threshold is None:
        threshold = trained.provenance.get("no_answer_threshold")
    cut = cut_question_tokens(trained.model.preprocessor, questions, str(data))
    length = int(trained.provenance.get("max_answer_length", 30))
    predictions, scores = predict_answers(trained.model, questions, length, "predict")
    gold = {question.id: list(question.answers) for question in questions}
    figures: dict[str, Any] = {}
    if any(gold.values()):
        if threshold is None:
            figures = evaluate_v1(gold, predictions)
        else:
            figures = evaluate_v2(gold, predictions, scores, threshold)
    if threshold is not None:
        predictions = {
            id: "" if scores[id] > threshold else text
            for id, text in predictions.items()
        }
    output.mkdir(parents=True, exist_ok=True)
    write_text(output / PREDICTIONS, json.dumps(predictions, indent=1) + "\n")
    write_text(output / NULL_ODDS, json.dumps(scores, indent=1) + "\n")
    return {
        "output": str(output),
        "questions": len(questions),
        "question_tokens_cut": cut,
        "unanswered": sum(not text for text in predictions.values()),
        "threshold": threshold,
        **figures,
    }


def check(
    path: Path, data: Path, columns: QuestionOptions | None = None
) -> dict[str, Any]:
    """Validates a directory of predictions against the questions.

    Returns:
        `questions`, and whether there are scores of "no answer".

    Raises:
        UsageError: naming the questions that are not as expected.
    """
    ids = {question.id for question in _questions(data, columns)}
    predictions = _object(path / PREDICTIONS)
    odds = _object(path / NULL_ODDS) if (path / NULL_ODDS).is_file() else None
    for file, entries in ((PREDICTIONS, predictions), (NULL_ODDS, odds)):
        if entries is None:
            continue
        bad = BadRows(f"{path / file}")
        for id in sorted(ids - entries.keys()):
            bad.add(f"question {id}", "expected an entry, found none")
        for id in sorted(entries.keys() - ids):
            bad.add(f"question {id}", f"is not a question of {data}")
        for id, value in entries.items():
            if file == PREDICTIONS and not isinstance(value, str):
                bad.add(f"question {id}", f"expected a text, found {value!r}")
            if file == NULL_ODDS and not _is_number(value):
                bad.add(f"question {id}", f"expected a finite number, found {value!r}")
        bad.settle(skip=False)
    return {"questions": len(ids), "null_odds": odds is not None}


def _questions(data: Path, columns: QuestionOptions | None) -> list[Question]:
    if split_suffixes(data.name)[0] in FORMATS:
        return read_question_table(data, columns or QuestionOptions(answered=False))[0]
    return read_squad(data)[0]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: expected a JSON object: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(
            f"{file}: expected a JSON object, found {type(content).__name__}"
        )
    return content
