"""The ELECTRA pair: what is shared, what flows where, and its figures."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertBackbone, LVBertElectra
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import VOCABULARY_SIZE, pretraining_batch


def _electra(**kwargs: Any) -> Any:
    keras.utils.set_random_seed(1)
    backbone = LVBertBackbone(
        VOCABULARY_SIZE,
        "csf",
        8,
        16,
        32,
        2,
        dropout=0.0,
        attention_dropout=0.0,
        max_sequence_length=32,
    )
    electra = LVBertElectra(backbone, generator_fraction=0.5, **kwargs)
    electra.compile(optimizer=AdamW(1e-2))
    electra.optimizer.build(electra.trainable_variables)
    return electra


def _gradients(electra: Any, batch: dict[str, Any]) -> dict[str, bool]:
    """Returns for each variable whether any gradient reaches it."""
    with tf.GradientTape() as tape:
        loss, _ = electra.losses_of(batch, electra(batch))
    variables = electra.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables])
    return {
        v.path: g is not None and bool(np.any(tf.convert_to_tensor(g).numpy()))
        for v, g in zip(variables, gradients, strict=True)
    }


def test_no_gradient_of_the_detection_reaches_the_generator() -> None:
    reached = _gradients(_electra(generator_weight=0.0), pretraining_batch())
    assert not any(r for path, r in reached.items() if path.startswith("generator"))
    assert any(path.startswith("generator") for path in reached)
    assert any(r for path, r in reached.items() if "discriminator_head" in path)


def test_without_detection_the_discriminator_stands_still() -> None:
    electra = _electra(discriminator_weight=0.0)
    reached = _gradients(electra, pretraining_batch())
    only = [v.path for v in electra.discriminator.encoder.trainable_variables]
    only += [v.path for v in electra.discriminator_head.trainable_variables]
    assert not any(reached[path] for path in only)
    assert reached[electra.discriminator.token_embedding.embeddings.path]


def test_the_figures_agree_with_each_other() -> None:
    electra = _electra()
    metrics = {k: float(v) for k, v in electra.train_step(pretraining_batch()).items()}
    assert metrics["loss"] == pytest.approx(
        metrics["generator_loss_all"] + 50 * metrics["discriminator_loss"], rel=1e-5
    )
    sums = electra.test_step(pretraining_batch())
    counts = np.asarray(sums["disc_histogram"])
    assert counts.sum() == pytest.approx(float(sums["tokens"]))
    assert counts[1].sum() == pytest.approx(float(sums["replaced"]))
    means = electra.metrics_from(sums)
    assert 0 <= float(means["discriminator_accuracy"]) <= 1


def test_samples_are_a_function_of_seed_step_and_example() -> None:
    electra = _electra()
    electra.run_seed = 3

    def corrupted(step: int, seed: int = 3) -> np.ndarray:
        electra.run_seed = seed
        return np.asarray(electra(pretraining_batch(step=step))["corrupted_ids"])

    assert np.array_equal(corrupted(5), corrupted(5))
    assert not np.array_equal(corrupted(5), corrupted(6))
    assert not np.array_equal(corrupted(5), corrupted(5, seed=4))


def test_only_masked_real_positions_change() -> None:
    electra = _electra()
    batch = pretraining_batch()
    original = np.array(batch["token_ids"])
    outputs = electra(batch)
    rows = np.arange(4)[:, None]
    original[rows, batch["mask_positions"]] = np.where(
        np.asarray(batch["mask_weights"]) > 0,
        batch["mask_ids"],
        original[rows, batch["mask_positions"]],
    )
    labels = np.asarray(outputs["labels"])
    assert np.array_equal(labels, outputs["corrupted_ids"] != original)
    allowed = np.zeros_like(labels)
    allowed[rows, batch["mask_positions"]] = np.asarray(batch["mask_weights"]) > 0
    assert not np.any(labels > allowed)


def test_embeddings_are_shared_and_saved_once(tmp_path: Any) -> None:
    electra = _electra()
    paths = [v.path for v in electra.weights]
    assert len(paths) == len(set(map(id, electra.weights)))
    assert sum("token_embedding" in path for path in paths) == 1
    batch = pretraining_batch()
    electra.save_to_preset(tmp_path / "pair")
    again = LVBertElectra.from_preset(tmp_path / "pair")
    assert np.array_equal(again(batch)["logits"], electra(batch)["logits"])
    electra.save(tmp_path / "pair.keras")
    loaded = keras.models.load_model(tmp_path / "pair.keras")
    assert np.array_equal(loaded(batch)["mlm_logits"], electra(batch)["mlm_logits"])
    with pytest.raises(ValueError, match="with a config.json"):
        LVBertElectra.from_preset(tmp_path)


def test_training_lowers_both_losses() -> None:
    electra = _electra()
    step = tf.function(electra.train_step, autograph=False)
    history = [step(pretraining_batch(0, step=i)) for i in range(30)]
    for name in ("generator_loss", "discriminator_loss"):
        assert float(history[-1][name]) < 0.9 * float(history[0][name])
    assert step.experimental_get_tracing_count() == 1


def test_an_impossible_generator_is_refused() -> None:
    with pytest.raises(ValueError, match="generator_fraction=0"):
        _electra(generator_weight=1.0).__class__(
            _electra().discriminator, generator_fraction=0
        )
