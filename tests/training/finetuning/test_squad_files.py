"""Files of questions: counts, and errors that name the question."""

import json
from pathlib import Path
from typing import Any

import pytest

from common.command_line import UsageError
from tests.paths import require_shared
from training.finetuning.squad_files import read_squad


@pytest.mark.parametrize(
    ("name", "count", "unanswerable"),
    [
        ("dev-v1.1.json.gz", 10570, False),
        ("dev-v2.0.json.gz", 11873, True),
        ("dev-slice-v2.0-genuine.json.gz", 1905, True),
        ("train-slice-v1.1.json.gz", 3939, False),
    ],
)
def test_counts_are_those_of_the_sources(
    name: str, count: int, unanswerable: bool
) -> None:
    path = require_shared(f"data/squad/{name}")
    questions, skipped = read_squad(path, unanswerable=unanswerable)
    assert (len(questions), skipped) == (count, 0)
    assert any(not q.answers for q in questions) is unanswerable


def squad(*questions: dict[str, Any], context: str = "The mill of 1843.") -> str:
    article = {"paragraphs": [{"context": context, "qas": list(questions)}]}
    return json.dumps({"data": [article]})


def asked(id: str, text: str | None, start: int) -> dict[str, Any]:
    answers = [] if text is None else [{"text": text, "answer_start": start}]
    return {"id": id, "question": "When?", "answers": answers}


def test_bad_questions_are_named_and_can_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "train.json"
    file.write_text(
        squad(
            asked("good", "1843", 12),
            asked("moved", "1843", 11),
            asked("beyond", "1843", 900),
            asked("none", None, -1),
            asked("good", "mill", 4),
            {"id": "odd", "question": 3},
        )
    )
    with pytest.raises(UsageError) as raised:
        read_squad(file, unanswerable=False)
    message = str(raised.value)
    assert "question moved: expected the answer '1843' at character 11" in message
    assert "question beyond: the answer '1843' is not in the context" in message
    assert "question none: expected an answer, found none" in message
    assert "question good: its id stands twice" in message
    assert "article 1, paragraph 1, question 6" in message
    questions, skipped = read_squad(file, unanswerable=True, skip_bad_rows=True)
    assert ([q.id for q in questions], skipped) == (["good", "none"], 4)
    file.write_text("[]")
    with pytest.raises(UsageError, match="expected a JSON object"):
        read_squad(file)
