"""Predictions for a file of texts, and submissions that their checkers accept."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.command_line import UsageError
from lvbert_tf import LVBertTextClassifier
from tests.commands import run as run_command
from tests.training.finetuning.conftest import experiment
from tests.training.finetuning.squad_files import squad_file
from training.finetuning import glue_submission, squad_submission, stage
from training.finetuning.glue_files import FILES
from training.finetuning.glue_submission import PARTS


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    """A model of several labels."""
    path = tmp_path_factory.mktemp("several")
    for name in ("train", "dev"):
        lines = ["good film\tg", "bad film\tb", "good bad\tb,g", "bad good\tg,b"] * 4
        (path / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    config = experiment(
        path, model_dir, "run.runs=1", "task.kind=multi_label", "run.epochs=25"
    )
    result = stage.run(config, path / "run")
    assert result["median"] > 0.9
    return Path(result["model"])


def test_a_file_of_texts_gets_labels_and_scores(tmp_path: Path, several: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("good film\nbad good\nbad\tfilm\n")
    ran = run_command(
        "training",
        "predict",
        *("--model", several, "--input", texts, "--output", tmp_path / "out.tsv"),
    )
    assert ran.status == 0, ran.errors
    lines = [x.split("\t") for x in (tmp_path / "out.tsv").read_text().splitlines()]
    assert lines[0] == ["label", "score_b", "score_g", "text"]
    assert [row[0] for row in lines[1:]] == ["g", "b,g", "b"]
    assert lines[3][3] == "bad film"
    model = LVBertTextClassifier.from_preset(str(several))
    scores = model.predict(["good film", "bad good", "bad film"], verbose=0)
    found = np.array([[float(cell) for cell in row[1:3]] for row in lines[1:]])
    assert np.abs(found - scores).max() < 1e-5
    texts.write_text("good\n\n\n")
    ran = run_command(
        "training",
        "predict",
        *("--model", several, "--input", texts, "--output", tmp_path / "out.tsv"),
    )
    assert (ran.status, "texts.txt:2: expected a text" in ran.errors) == (2, True)


def test_t13_a_glue_submission_has_eleven_files_that_the_checker_accepts(
    tmp_path: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tuple(part.__class__(**{**vars(part), "rows": 2}) for part in PARTS)
    monkeypatch.setattr(glue_submission, "PARTS", small)
    for part in small:
        names = FILES[part.source].texts
        file = tmp_path / "glue" / FILES[part.source].folder / part.test
        file.parent.mkdir(parents=True, exist_ok=True)
        header = "\t".join(("index", *names))
        rows = ["\t".join((str(i), *("good film",) * len(names))) for i in range(2)]
        file.write_text("\n".join([header, *rows]) + "\n")
    sts, train = tmp_path / "sts", tmp_path / "glue" / "STS-B"
    for name in ("train.tsv", "dev.tsv"):
        lines = ["good\tbad\t9", "good\tgood\t12", "bad\tfilm\t11"]
        (train / name).write_text("\n".join(["sentence1\tsentence2\tscore", *lines]))
    config = experiment(
        tmp_path / "glue", model_dir, "run.runs=1", "run.epochs=9", task="sts"
    )
    models = {"sts": Path(stage.run(config, sts)["model"])}
    output = tmp_path / "out"
    with pytest.raises(UsageError, match="found none of cola, mnli"):
        glue_submission.run(models, tmp_path / "glue", output, fill=False)
    result = glue_submission.run(models, tmp_path / "glue", output, fill=True)
    assert list(result["files"]) == [part.file for part in PARTS]
    assert len(result["files"]) == 11
    # T04: scores stay within 0 and 5, whatever the model says.
    assert (output / "STS-B.tsv").read_text() == (
        "index\tprediction\n0\t5.000\n1\t5.000\n"
    )
    assert (output / "AX.tsv").read_text().endswith("1\tentailment\n")
    assert "WNLI.tsv" in result["filled"]
    assert "STS-B.tsv" not in result["filled"]
    with zipfile.ZipFile(result["archive"]) as zipped:
        assert len(zipped.namelist()) == 11
    assert glue_submission.check(Path(result["archive"])) == {"files": result["files"]}
    (output / "RTE.tsv").write_text("index\tprediction\n0\t1\n2\tentailment\n")
    with pytest.raises(UsageError, match=r"RTE\.tsv:2: expected one of (.|\n)*:3: exp"):
        glue_submission.check(output)
    with pytest.raises(UsageError, match="expected a model of cola, found one of sts"):
        glue_submission.run(
            {"cola": models["sts"]}, tmp_path / "glue", output, fill=True
        )


def test_t07_squad_predictions_use_the_tuned_threshold(
    tmp_path: Path, model_dir: Path
) -> None:
    data = squad_file(tmp_path / "dev.json", 8, unanswerable=True)
    config = experiment(
        None,
        model_dir,
        f"data.train={data}",
        f"data.dev={data}",
        "run.runs=1",
        "run.sequence_length=16",
        task="squad2",
    )
    result = stage.run(config, tmp_path / "run")
    run: dict[str, Any] = result["runs"][0]
    # The average of GLUE needs its eight tasks.
    ran = run_command("training", "glue-score", tmp_path / "run")
    assert ran.output["average"] is None
    assert len(ran.output["missing"]) == 8
    written = squad_submission.run(Path(result["model"]), data, tmp_path / "out", None)
    assert written["threshold"] == run["best_f1_thresh"]
    assert written["f1"] == pytest.approx(run["best_f1"])
    checked = squad_submission.check(tmp_path / "out", data)
    assert checked == {"questions": 8, "null_odds": True}
    predictions = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert sum(not text for text in predictions.values()) == written["unanswered"]
    del predictions["q3"]
    (tmp_path / "out" / "predictions.json").write_text(json.dumps(predictions))
    with pytest.raises(UsageError, match="question q3: expected an entry"):
        squad_submission.check(tmp_path / "out", data)
