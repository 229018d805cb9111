"""The pretraining objectives, heads and gradients against the official code."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf.conversion import load_official_checkpoint
from lvbert_tf.models.objectives import (
    gumbel_sample_tokens,
    masked_lm_sums,
    sample_tokens,
    scatter_tokens,
)
from lvbert_tf.models.pretraining import ENCODER_INPUTS
from tests.paths import golden

pytestmark = pytest.mark.golden


def _batch(vectors: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays = {
        "token_ids": vectors["input_ids"],
        "segment_ids": vectors["segment_ids"],
        "padding_mask": vectors["input_mask"],
        "mask_positions": vectors["masked_lm_positions"],
        "mask_ids": vectors["masked_lm_ids"],
        "mask_weights": vectors["masked_lm_weights"],
        "step": np.zeros(len(vectors["input_ids"]), np.int64),
    }
    return {name: tf.constant(array) for name, array in arrays.items()}


def _electra(dtype: str) -> tuple[Any, dict[str, np.ndarray], float]:
    folder = golden("pretrain/lv_small")
    electra = load_official_checkpoint(
        folder / "model.ckpt", kind="electra", dtype=dtype
    )
    return electra, dict(np.load(folder / "io.npz")), 1e-5


def test_logits_losses_and_labels_of_electra() -> None:
    electra, vectors, relative = _electra("float32")
    batch = _batch(vectors)
    logits = electra.mlm_logits(batch)
    corrupted, labels = electra.corrupt(batch, vectors["sampled_token_ids"])
    detected = electra.detection_logits(batch, corrupted)
    assert np.array_equal(corrupted, vectors["fake_input_ids"])
    assert np.array_equal(labels * vectors["input_mask"], vectors["disc_labels"])
    assert np.abs(logits - vectors["mlm_logits"]).max() <= 2e-5
    assert np.abs(detected - vectors["disc_logits"]).max() <= 2e-5
    outputs = {"mlm_logits": logits, "labels": labels, "logits": detected}
    loss, sums = electra.losses_of(batch, outputs)
    metrics = electra.metrics_from(sums)
    assert float(loss) == pytest.approx(float(vectors["total_loss"]), rel=relative)
    for ours, official in (
        ("loss", "total_loss"),
        ("generator_loss_all", "mlm_loss"),
        ("discriminator_loss", "disc_loss"),
    ):
        assert float(metrics[ours]) == pytest.approx(
            float(vectors[official]), rel=relative
        ), ours


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_electra(dtype: str) -> None:
    electra, vectors, _ = _electra(dtype)
    batch = _batch(vectors)
    if dtype == "float64":
        batch["mask_weights"] = tf.cast(batch["mask_weights"], tf.float64)
    corrupted, labels = electra.corrupt(batch, vectors["sampled_token_ids"])
    variables = [v.value for v in electra.trainable_variables]
    with tf.GradientTape() as tape:
        outputs = {
            "mlm_logits": electra.mlm_logits(batch),
            "labels": labels,
            "logits": electra.detection_logits(batch, corrupted),
        }
        loss, _ = electra.losses_of(batch, outputs)
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
    suffix = "_f64" if dtype == "float64" else ""
    norm = float(tf.linalg.global_norm(gradients))
    bound = 1e-9 if dtype == "float64" else 1e-4
    # Recorded in float32 only.
    expected = float(vectors["global_norm_of_all_gradients"])
    assert norm == pytest.approx(expected, rel=1e-6)
    places = _official_names(electra)
    compared = 0
    for key, value in vectors.items():
        if not key.startswith("grad::") or key.endswith("_f64") != bool(suffix):
            continue
        variable = places[key.removeprefix("grad::").removesuffix("_f64")]
        index = [v is variable for v in electra.trainable_variables].index(True)
        found = np.reshape(gradients[index], value.shape)
        assert np.abs(found - value).max() <= bound * np.abs(value).max(), key
        compared += 1
    assert compared >= 15


def _official_names(electra: Any) -> dict[str, Any]:
    from lvbert_tf.conversion import (
        _dense_places,
        _embedding_places,
        _encoder_places,
        _masked_lm_places,
    )

    head = electra.discriminator_head
    return {
        **_embedding_places(electra.discriminator),
        **_encoder_places(electra.discriminator.encoder, "electra"),
        **_encoder_places(electra.generator, "generator"),
        **_masked_lm_places(electra.generator_head),
        **_dense_places(head.dense, "discriminator_predictions/dense"),
        **_dense_places(head.logits, "discriminator_predictions/dense_1"),
    }


def test_the_masked_lm_objective_alone() -> None:
    folder = golden("pretrain/bert_objective")
    config = json.loads((folder / "config.json").read_text())
    model = load_official_checkpoint(
        folder / "model.ckpt",
        kind="masked_lm",
        num_heads=config["discriminator"]["num_attention_heads"],
    )
    vectors = dict(np.load(folder / "io.npz"))
    batch = _batch(vectors)
    logits = model({k: batch[k] for k in (*ENCODER_INPUTS, "mask_positions")})
    assert np.abs(logits - vectors["mlm_logits"]).max() <= 2e-5
    sums = masked_lm_sums(logits, batch)
    loss = float(sums.loss_all) / (float(sums.weight_all) + 1e-6)
    assert loss == pytest.approx(float(vectors["mlm_loss"]), rel=1e-5)


def test_scattering_follows_the_official_rules() -> None:
    vectors = np.load(golden("pretrain/helpers.npz"))
    positions = vectors["scatter_int::positions"]
    found = scatter_tokens(
        vectors["scatter_int::sequence"],
        positions,
        vectors["scatter_int::updates"],
        np.ones_like(positions),
    )
    assert np.array_equal(found, vectors["scatter_int::updated"])


def test_gumbel_sampling_with_the_official_noise() -> None:
    vectors = np.load(golden("pretrain/helpers.npz"))
    logits, noise = vectors["sample::logits"], vectors["sample::uniform_noise"]
    found = gumbel_sample_tokens(logits, noise)
    assert np.array_equal(found, vectors["sample::onehot"].argmax(-1))
    disallowed = vectors["sample::disallow_onehot"].argmax(-1)
    found = gumbel_sample_tokens(logits, noise, disallowed)
    assert np.array_equal(found, vectors["sample::onehot_disallow"].argmax(-1))


def test_inverse_sampling_draws_from_the_same_distribution() -> None:
    probabilities = np.array([0.1, 0.2, 0.05, 0.65], np.float32)
    logits = np.log(probabilities)[None, None] * np.ones((1, 20_000, 1), np.float32)
    uniform = np.random.default_rng(0).random((1, 20_000), np.float32)
    drawn = np.bincount(np.asarray(sample_tokens(logits, uniform))[0], minlength=4)
    # Four standard errors of a share of 20,000 draws.
    error = 4 * np.sqrt(probabilities * (1 - probabilities) / 20_000)
    assert np.all(np.abs(drawn / 20_000 - probabilities) < error)
    edges = np.array([[0.0, np.nextafter(1, 0, dtype=np.float32)]], np.float32)
    assert np.asarray(sample_tokens(logits[:, :2], edges)).tolist() == [[0, 3]]
