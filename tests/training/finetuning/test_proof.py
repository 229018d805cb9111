"""Real data, and a small backbone that is pretrained in the test: it learns."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run as run_command
from tests.paths import require_shared
from training.finetuning import experiment as finetune_experiment
from training.finetuning import stage
from training.finetuning.squad_files import read_squad

pytestmark = pytest.mark.slow


def command(*words: Any) -> dict[str, Any]:
    ran = run_command("training", *words)
    assert ran.status == 0, ran.errors
    output: dict[str, Any] = ran.output
    return output


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight layers of width 64 after 1,000 steps of masked LM on film reviews."""
    folder = tmp_path_factory.mktemp("backbone")
    with lzma.open(require_shared("data/imdb/train.tsv.xz"), "rt") as stream:
        rows = stream.read().split("\n")[1:-1]
    corpus = folder / "corpus.txt"
    corpus.write_text("\n\n".join(row.split("\t")[3] for row in rows[::3]) + "\n")
    command(
        "prepare",
        *("--input", corpus, "--output", folder / "records"),
        *("--vocabulary-size", "8000", "--sequence-length", "128"),
    )
    settings = {
        "model.architecture": "sfcfsfcf",
        "model.embedding_dim": 64,
        "model.hidden_dim": 64,
        "model.intermediate_dim": 256,
        "model.num_heads": 2,
        "model.max_sequence_length": 128,
        "model.dropout": 0.0,
        "model.attention_dropout": 0.0,
        "data.directory": folder / "records",
        "data.sequence_length": 128,
        "data.validation_examples": 512,
        "optimizer.learning_rate": 1e-3,
        "optimizer.warmup_steps": 100,
        "run.objective": "mlm",
        "run.steps": 1000,
        "run.batch_size": 16,
    }
    words = (w for k, v in settings.items() for w in ("--set", f"{k}={v}"))
    result = command("pretrain", "--run-dir", folder / "run", *words)
    assert result["loss"] < result["unigram_loss"] - 0.5  # it reads its context
    return Path(result["model"])


def finetune(path: Path, model: Path, task: str, *overrides: str) -> dict[str, Any]:
    settings = finetune_experiment.load(
        None,
        [f"task.name={task}", f"model.directory={model}", "run.runs=1", *overrides],
    )
    return stage.run(settings, path)


def first_rows(source: Path, target: Path, count: int) -> Path:
    target.write_text("\n".join(source.read_text().split("\n")[: count + 1]) + "\n")
    return target


def test_a_slice_of_sst_beats_the_majority(tmp_path: Path, backbone: Path) -> None:
    folder = require_shared("data/glue/SST-2")
    train = first_rows(folder / "train.tsv", tmp_path / "train.tsv", 16000)
    result = finetune(
        tmp_path / "run",
        backbone,
        "sst",
        f"data.train={train}",
        f"data.dev={folder / 'dev.tsv'}",
    )
    assert result["median"] >= result["majority"] + 0.15
    assert result["runs"][0]["above_majority"]


def test_t02_sts_overfits_pairs(tmp_path: Path, backbone: Path) -> None:
    source = require_shared("data/glue/STS-B/train.tsv")
    train = first_rows(source, tmp_path / "train.tsv", 64)
    result = finetune(
        tmp_path / "run",
        backbone,
        "sts",
        f"data.train={train}",
        f"data.dev={train}",
        "run.epochs=60",
        "run.batch_size=16",
        "run.dropout=0",
    )
    assert result["median"] > 0.95


def test_squad_overfits_questions(tmp_path: Path, backbone: Path) -> None:
    source = require_shared("data/squad/dev-slice-v2.0-genuine.json.gz")
    questions = [q for q in read_squad(source)[0] if q.answers][:50]
    data = tmp_path / "squad.json"
    articles = [
        {
            "paragraphs": [
                {
                    "context": q.context,
                    "qas": [
                        {
                            "id": q.id,
                            "question": q.question,
                            "answers": [
                                {"text": q.answers[0], "answer_start": q.answer_start}
                            ],
                        }
                    ],
                }
            ]
        }
        for q in questions
    ]
    data.write_text(json.dumps({"data": articles}))
    result = finetune(
        tmp_path / "run",
        backbone,
        "squad1",
        f"data.train={data}",
        f"data.dev={data}",
        "run.epochs=40",
        "run.batch_size=16",
    )
    assert result["median"] > 90
