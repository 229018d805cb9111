"""Scores of inherited weights, and the model that `extract` takes out."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.command_line import UsageError
from lvbert_tf import Architecture, LVBertMaskedLM, LVBertSupernet
from tests.commands import run
from tests.training.supernets import make_supernet_run
from training.loop.batches import held_out_batches
from training.metrics.masked_lm import masked_lm_figures
from training.pretraining import extract, trained_supernet
from training.run.arguments import parse
from training.run.devices import Distribution
from training.run.options import Data
from training.scoring import evaluate

A, B = Architecture.parse("csf"), Architecture.parse("fff")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    path = tmp_path_factory.mktemp("supernet") / "run"
    return make_supernet_run(path, tiny_data, num_layers=3)


def test_scores_do_not_depend_on_batch_size_or_company(
    run_dir: Path, tiny_data: Path
) -> None:
    together = evaluate.evaluate(run_dir, str(tiny_data), [A, B], batch_size=16)
    alone = evaluate.evaluate(run_dir, str(tiny_data), [B], batch_size=7)
    for ours, theirs in zip(together["results"][1:], alone["results"], strict=True):
        assert ours["accuracy"] == theirs["accuracy"]
        assert ours["masked_tokens"] == theirs["masked_tokens"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6)
    first = together["results"][0]
    share, count = first["accuracy"], first["masked_tokens"]
    assert first["standard_error"] == pytest.approx(
        np.sqrt(share * (1 - share) / count)
    )
    assert together["supernet_step"] == 5


def test_a_run_directory_keeps_configuration_and_result(
    run_dir: Path, tiny_data: Path, tmp_path: Path
) -> None:
    words = ["evaluate", "--supernet", str(run_dir), "--architecture", "csf"]
    words += ["--data", str(tiny_data), "--run-dir", str(tmp_path / "run")]
    status, result, errors = run("training", *words)
    assert status == 0, errors
    assert result["results"][0]["architecture"] == "csf"
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    # The configuration that was kept does the same again, from the result.
    config = shutil.copy(tmp_path / "run" / "config.toml", tmp_path / "again.toml")
    again = run("training", "evaluate", "--config", config, *words[-2:])
    assert again.output == result
    status, _, errors = run("training", *words, "--examples", "3")
    assert status == 2
    assert "scoring.examples: 0 there, 3 asked" in errors


def test_nothing_to_score_is_an_error(run_dir: Path, tiny_data: Path) -> None:
    options = ("--supernet", run_dir, "--data", tiny_data)
    status, _, errors = run("training", "evaluate", *options)
    assert status == 2
    assert "--architecture SPEC" in errors


def test_the_extracted_model_scores_the_same(
    run_dir: Path, tiny_data: Path, tmp_path: Path
) -> None:
    output = tmp_path / "model"
    result = extract.run(run_dir, A, output)
    assert result == {"model": str(output), "architecture": "csf", "supernet_step": 5}
    model = LVBertMaskedLM.from_preset(str(output))
    assert model.preprocessor.tokenizer.vocabulary_size() > 50
    sums: dict[str, float] = {}
    batches = held_out_batches(
        Data(directory=str(tiny_data), sequence_length=16),
        batch_size=8,
        distribution=Distribution(tf.distribute.get_strategy()),
    )
    for batch in batches:
        for name, value in model.test_step(batch).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    inherited = evaluate.evaluate(run_dir, str(tiny_data), [A])["results"][0]
    own = masked_lm_figures(sums)
    assert own["masked_tokens"] == inherited["masked_tokens"]
    assert own["accuracy"] == inherited["accuracy"]
    assert own["loss"] == pytest.approx(inherited["loss"], rel=1e-6)
    with pytest.raises(UsageError, match="exists already"):
        extract.run(run_dir, A, output)


def test_what_the_supernet_cannot_score_is_refused(
    run_dir: Path, tiny_data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="must have 3 layers"):
        evaluate.evaluate(run_dir, str(tiny_data), [Architecture.parse("cs")])
    with pytest.raises(UsageError, match=r"--architecture: .*\n  cq\n   \^"):
        parse("cq")
    with pytest.raises(UsageError, match=r"--supernet .*: expected the run directory"):
        evaluate.evaluate(tmp_path, str(tiny_data), [A])
    with pytest.raises(UsageError, match=r"no index\.json"):
        evaluate.evaluate(run_dir, str(tmp_path), [A])
    with pytest.raises(UsageError, match="must have 3 layers"):
        extract.run(run_dir, Architecture.parse("cs"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_supernet_is_a_preset_of_its_own(run_dir: Path) -> None:
    stored = LVBertSupernet.from_preset(str(run_dir / "model"))
    trained = trained_supernet.load(run_dir).model
    for ours, theirs in zip(stored.weights, trained.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
