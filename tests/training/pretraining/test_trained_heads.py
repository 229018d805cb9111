"""What pretraining writes: the heads that were trained, not only the encoder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf
from tests.training.conftest import TINY_MODEL
from tests.training.runs import pretrain_settings, state
from training.finetuning import pretrained
from training.pretraining import pretrain

TEXTS = ["balan [MASK] comos .", "[MASK] fimot"]
SHORT = ["run.steps=3", "run.evaluate_every=3", "run.checkpoint_every=3"]


@pytest.fixture(scope="module", params=["mlm", "electra"])
def trained(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tiny_data: Path,
) -> tuple[str, Path]:
    run_dir = tmp_path_factory.mktemp(request.param) / "run"
    objective = f"run.objective={request.param}"
    pretrain.run(
        pretrain_settings(tiny_data, [*TINY_MODEL, *SHORT, objective]), run_dir
    )
    return request.param, run_dir


def _arrays(run_dir: Path, part: str) -> list[np.ndarray]:
    """The trained values under a part of the model's name, without its moments."""
    return [
        value
        for name, value in state(run_dir).items()
        if part in name and "optimizer" not in name and "seed" not in name
    ]


def test_the_head_comes_back_as_it_was_trained(trained: tuple[str, Path]) -> None:
    objective, run_dir = trained
    folder = run_dir / "model" / ("" if objective == "mlm" else "generator")
    # Warnings are errors here: a fresh head would be named in one.
    first, second = (
        lvbert_tf.LVBertMaskedLM.from_preset(str(folder)) for _ in range(2)
    )
    answers = [model.fill(TEXTS) for model in (first, second)]
    assert answers[0] == answers[1]
    head = first.masked_lm_head
    assert np.any(head.output_bias)  # zero before the first update
    saved = _arrays(run_dir, "head")
    for weights in head.get_weights():
        assert any(np.array_equal(weights, array) for array in saved)


def test_a_generator_answers_as_the_pair_did(trained: tuple[str, Path]) -> None:
    objective, run_dir = trained
    if objective == "mlm":
        assert not (run_dir / "model" / "generator").exists()
        return
    generator = lvbert_tf.LVBertMaskedLM.from_preset(
        str(run_dir / "model" / "generator")
    )
    backbone = lvbert_tf.LVBertBackbone.from_preset(str(run_dir / "model"))
    pair = lvbert_tf.LVBertElectra(backbone)
    pair.generator.set_weights(generator.backbone.encoder.get_weights())
    pair.generator_head.set_weights(generator.masked_lm_head.get_weights())
    inputs: dict[str, Any] = generator.preprocessor.blanks(TEXTS)
    weights = inputs.pop("mask_weights")
    batch = {name: tf.constant(value) for name, value in inputs.items()}
    expected = pair.mlm_logits(batch)
    np.testing.assert_allclose(generator(inputs), expected, atol=1e-5)
    assert weights.sum() == 2


def test_the_directory_is_still_the_start_of_everything(
    trained: tuple[str, Path],
) -> None:
    _, run_dir = trained
    model = run_dir / "model"
    start = pretrained.load(model)
    assert start.loaded == len(start.backbone.weights)
    with pytest.warns(UserWarning, match="logits/kernel"):
        classifier = lvbert_tf.LVBertTextClassifier.from_preset(
            str(model), num_classes=2
        )
    assert classifier.predict(["balan comos"], verbose=0).shape == (1, 2)
    for ours, theirs in zip(
        classifier.backbone.get_weights(), start.backbone.get_weights(), strict=True
    ):
        assert np.array_equal(ours, theirs)
