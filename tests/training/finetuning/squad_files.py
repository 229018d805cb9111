"""Small SQuAD files."""

import json
from pathlib import Path


def squad_file(path: Path, count: int, unanswerable: bool) -> Path:
    """Questions whose answer is the word behind "the"."""
    paragraphs = []
    for number in range(count):
        answer = ("film", "plot")[number % 2]
        context = f"a good a bad is the {answer} was bad a is"
        entry = {"id": f"q{number}", "question": "the is", "answers": []}
        if not (unanswerable and number % 4 == 3):
            place = context.index("the ") + 4
            entry["answers"] = [{"text": answer, "answer_start": place}]
        else:
            context = "a good a bad is a was bad"
        paragraphs.append({"context": context, "qas": [entry]})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return path
