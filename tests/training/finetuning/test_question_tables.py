"""Questions in tables and data sets: columns by name, bad rows by line."""

import json
from pathlib import Path

import pytest

from common.command_line import UsageError
from tests.training.finetuning.conftest import experiment
from training.finetuning import task_data
from training.finetuning.question_tables import QuestionOptions, read_question_table
from training.finetuning.squad_files import Question

OPTIONS = QuestionOptions()


def test_answers_are_found_or_placed(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    rows = ["question\tcontext\tanswer\tanswer_start", "q\tab ab\tab\t3", "q\tab\t\t"]
    file.write_text("\n".join(rows) + "\n")
    questions, _ = read_question_table(file, OPTIONS)
    assert [(q.answers, q.answer_start) for q in questions] == [(("ab",), 3), ((), -1)]
    bad = ["q\tab ab\tab\t", "q\tab\tab\tx", "q\tab\tcd\t"]
    file.write_text("\n".join([*rows, *bad]) + "\n")
    with pytest.raises(UsageError) as raised:
        read_question_table(file, OPTIONS)
    message = str(raised.value)
    assert "tsv:4: the answer 'ab' stands 2 times" in message
    assert "tsv:5: answer_start: expected a whole number, found 'x'" in message
    assert "tsv:6: the answer 'cd' is not in the context" in message
    skipped = read_question_table(file, QuestionOptions(skip_bad_rows=True))[1]
    assert skipped == 3


def test_columns_go_by_other_names_and_ids_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("id,ask,passage,reply\nx,who?,it was me,me\nx,who?,it was me,me\n")
    options = QuestionOptions("ask", "passage", "reply")
    with pytest.raises(UsageError, match="csv:3: the id 'x' stands twice"):
        read_question_table(file, options)
    with pytest.raises(UsageError, match=r"csv:1: expected the columns question, con"):
        read_question_table(file, OPTIONS)
    file.write_text("id,ask,passage\nx,who?,it was me\n")
    unanswered = QuestionOptions("ask", "passage", answered=False)
    assert read_question_table(file, unanswered)[0] == [
        Question("x", "who?", "it was me")
    ]


def test_answers_in_lists_as_data_sets_of_the_hub_have_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("datasets")
    rows = [
        {
            "question": "who?",
            "context": "it was me, me",
            "answers": {"text": ["me", "me"], "answer_start": [7, 11]},
        },
        {
            "question": "who?",
            "context": "it was",
            "answers": {"text": [], "answer_start": []},
        },
    ]
    for name in ("train", "test"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    settings = experiment(
        None,
        Path("model"),
        f"data.train=hf:{tmp_path}:train",
        f"data.dev=hf:{tmp_path}:test",
        "task.kind=span",
        task="jsonl",
    )
    data = task_data.load(settings)
    expected = [(("me", "me"), 7), ((), -1)]
    assert [(q.answers, q.answer_start) for q in data.train] == expected
    assert data.counts["dev_questions_in_train"] == 2
    assert "2 of 2 questions to measure on are trained on" in capsys.readouterr().err
    from_file, _ = read_question_table(tmp_path / "train.jsonl", OPTIONS)
    assert [(q.answers, q.answer_start) for q in from_file] == expected
    (tmp_path / "train.jsonl").write_text(
        json.dumps({**rows[0], "answers": {"text": ["me"], "answer_start": []}}) + "\n"
    )
    with pytest.raises(UsageError, match="jsonl:1: answers: expected an object with"):
        read_question_table(tmp_path / "train.jsonl", OPTIONS)
