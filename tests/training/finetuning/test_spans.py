"""Question answering: trained, measured, stored, and its limits named."""

import json
from pathlib import Path

import pytest

from common.command_line import UsageError
from lvbert_tf import LVBertSpanPredictor
from tests.training.finetuning.conftest import experiment
from tests.training.finetuning.squad_files import squad_file
from training.finetuning import stage


@pytest.mark.parametrize("task", ["squad1", "squad2"])
def test_questions_are_learnt_and_the_model_answers(
    tmp_path: Path, model_dir: Path, task: str
) -> None:
    train = squad_file(tmp_path / "train.json", 16, task == "squad2")
    config = experiment(
        tmp_path,
        model_dir,
        f"data.train={train}",
        f"data.dev={squad_file(tmp_path / 'dev.json', 8, task == 'squad2')}",
        "run.runs=1",
        "run.sequence_length=16",
        "run.epochs=15",
        task=task,
    )
    result = stage.run(config, tmp_path / "run")
    run = result["runs"][0]
    assert result["metric"] == "f1"
    assert run["f1" if task == "squad1" else "best_f1"] > 80
    predictions = json.loads((tmp_path / "run" / "predictions.json").read_text())
    odds = json.loads((tmp_path / "run" / "null_odds.json").read_text())
    assert list(predictions) == list(odds) == [f"q{n}" for n in range(8)]
    assert run["texts"]["train"]["questions"] == 16
    model = LVBertSpanPredictor.from_preset(result["model"])
    (answers,) = model.answer(["the is"], ["a good a bad is the film was bad a is"])
    assert predictions["q0"] == answers[0].text
    stored = json.loads((Path(result["model"]) / "training.json").read_text())
    assert (stored["no_answer_threshold"] is None) is (task == "squad1")


def test_t10_a_question_that_leaves_no_room_is_refused(
    tmp_path: Path, model_dir: Path
) -> None:
    config = experiment(
        None,
        model_dir,
        f"data.train={squad_file(tmp_path / 'train.json', 4, False)}",
        f"data.dev={squad_file(tmp_path / 'dev.json', 4, False)}",
        "run.runs=1",
        "run.sequence_length=16",
        "span.max_question_length=64",
        task="squad1",
    )
    with pytest.raises(UsageError, match=r"sequence_length=16.*max_question_length=64"):
        stage.run(config, tmp_path / "run")
