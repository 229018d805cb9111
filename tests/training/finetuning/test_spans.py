"""Question answering: trained, measured, stored, and its limits named."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from common.command_line import UsageError
from lvbert_tf import LVBertSpanPredictor
from tests.training.finetuning.conftest import experiment
from tests.training.finetuning.squad_files import squad_file
from training.finetuning import pretrained, stage, task_data
from training.finetuning.spans import SpanProblem


@pytest.mark.parametrize(
    "task", ["squad1", pytest.param("squad2", marks=pytest.mark.slow)]
)
def test_questions_are_learnt_and_the_model_answers(
    tmp_path: Path, model_dir: Path, task: str
) -> None:
    train = squad_file(tmp_path / "train.json", 16, task == "squad2")
    config = experiment(
        None,
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


@pytest.mark.parametrize("task", ["squad1", "squad2"])
def test_t09_no_valid_span_is_no_answer_and_no_crash(
    tmp_path: Path, model_dir: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one start that is considered lies behind the one end."""
    data = squad_file(tmp_path / "dev.json", 4, task == "squad2")
    config = experiment(
        None,
        model_dir,
        f"data.train={data}",
        f"data.dev={data}",
        "run.runs=1",
        "run.sequence_length=16",
        "run.epochs=1",
        "span.beam_size=1",
        task=task,
    )

    def backwards(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        rows, tokens = inputs["token_ids"].shape
        # The context's last token starts; its first one ends, and nothing else does.
        ends = np.full((rows, 1, tokens), -1e9, np.float32)
        first = inputs["segment_ids"].argmax(axis=1)
        ends[np.arange(rows), :, first] = 0.0
        last = inputs["padding_mask"].sum(axis=1) - 2
        return {
            "start_logits": np.zeros((rows, tokens), np.float32),
            "unanswerable_logit": np.zeros(rows, np.float32),
            "start_index": last[:, None],
            "start_log_probs": np.zeros((rows, 1), np.float32),
            "end_log_probs": ends,
        }

    monkeypatch.setattr(keras.Model, "predict_on_batch", backwards)
    problem = SpanProblem(config, pretrained.load(model_dir), task_data.load(config))
    figures = problem.evaluate("dev")
    predictions = json.loads(problem.report(0)["files"]["predictions.json"])
    assert set(predictions.values()) == {""}
    assert figures["degenerate"] is True
    exact = figures["exact_match" if task == "squad1" else "best_exact"]
    assert exact == (0.0 if task == "squad1" else 25.0)


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
    # What never began does not stand in the way of the settings put right.
    assert {p.name for p in (tmp_path / "run").iterdir()} <= {".lock"}
