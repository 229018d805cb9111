"""A small model and a table of labelled texts, for all tests of fine-tuning."""

from pathlib import Path

import keras
import numpy as np
import pytest

from lvbert_tf import LVBertBackbone, LVBertTokenizer
from training.finetuning import experiment as finetune_experiment
from training.finetuning.experiment import FinetuneExperiment

WORDS = ["good", "bad", "film", "plot", "the", "a", "was", "is"]


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pretrained") / "model"
    keras.utils.set_random_seed(1)
    backbone = LVBertBackbone(
        13,
        "cs",
        embedding_dim=32,
        hidden_dim=32,
        intermediate_dim=32,
        num_heads=2,
        dropout=0.0,
        attention_dropout=0.0,
        max_sequence_length=16,
    )
    backbone.save_to_preset(str(path))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    LVBertTokenizer([*special, *WORDS]).save_to_preset(str(path))
    return path


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task")
    draw = np.random.default_rng(0)
    for name, count in (("train", 48), ("dev", 16)):
        rows = []
        for number in range(count):
            label = ("bad", "good")[number % 2]
            words = [*draw.choice(WORDS[2:], 4), label, label]
            draw.shuffle(words)
            rows.append(f"{' '.join(words)}\tis {label}")
        text = "text\tlabel\n" + "\n".join(rows) + "\n"
        (path / f"{name}.tsv").write_text(text)
    return path


def experiment(
    data: Path | None, model: Path, *overrides: str, task: str = "tsv"
) -> FinetuneExperiment:
    return finetune_experiment.load(
        None,
        [
            f"task.name={task}",
            *([f"data.directory={data}"] if data else []),
            f"model.directory={model}",
            "run.epochs=12",
            "run.batch_size=8",
            "run.sequence_length=10",
            "run.dropout=0.1",
            "optimizer.learning_rate=0.01",
            *overrides,
        ],
    )
