"""Losses by letter and depth; a supernet that learned beats unigrams (S08)."""

from pathlib import Path

import pytest

from training.scoring.path_losses import path_losses


def test_means() -> None:
    found = path_losses({"cs": 1.0, "cf": 2.0, "ss": 6.0}, "csf")
    assert found["paths"] == 3
    assert found["mean_loss"] == 3.0
    assert found["by_letter"] == {"c": 1.5, "s": (1 + 6 + 6) / 3, "f": 2.0}
    assert found["by_position"] == [
        {"c": 1.5, "s": 6.0, "f": None},
        {"c": None, "s": 3.5, "f": 2.0},
    ]


@pytest.mark.slow
def test_random_paths_fall_below_the_unigram_loss_s08(
    tmp_path: Path, tiny_data: Path
) -> None:
    from training.pretraining import experiment, supernet
    from training.scoring import evaluate

    overrides = [
        f"data.directory={tiny_data}",
        "data.sequence_length=16",
        "model.num_layers=4",
        "model.embedding_dim=32",
        "model.hidden_dim=32",
        "model.intermediate_dim=64",
        "model.num_heads=2",
        "model.max_sequence_length=16",
        "model.dropout=0.0",
        "model.attention_dropout=0.0",
        "optimizer.learning_rate=0.003",
        "optimizer.warmup_steps=20",
        "run.steps=1200",
        "run.batch_size=16",
    ]
    supernet.run(experiment.load_supernet(None, overrides), tmp_path / "run")
    found = evaluate.evaluate(tmp_path / "run", str(tiny_data), [], random=50)
    paths = found["random_paths"]
    assert paths["paths"] == 50
    assert paths["mean_loss"] < found["unigram_loss"]
    assert found["warnings"] == []
    assert len(paths["by_position"]) == 4
    assert all(value is not None for value in paths["by_letter"].values())
