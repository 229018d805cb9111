"""The optimizer and schedule against the official code."""

import json
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf.layer_decay import layer_wise_decay
from lvbert_tf.layers.embeddings import TokenEmbedding, gradient_of_occurrences
from lvbert_tf.optimization import AdamW, WarmupLinearDecay
from tests.paths import golden

pytestmark = pytest.mark.golden


def _variables(vectors: Any, order: list[str]) -> list[keras.Variable]:
    return [
        keras.Variable(vectors[f"init::{name}"], name=name.replace("/", "_"))
        for name in order
    ]


def test_every_step_of_pretraining_equals_the_official_one() -> None:
    folder = golden("optimizer")
    table = json.loads((folder / "pretrain_schedule.json").read_text())
    vectors = np.load(folder / "pretrain_schedule.npz")
    hparams, order = table["hparams"], table["variable_order"]
    schedule = WarmupLinearDecay(
        hparams["learning_rate"], hparams["num_train_steps"], hparams["warmup_steps"]
    )
    optimizer = AdamW(schedule, exclude_from_weight_decay=("LayerNorm", "bias"))
    variables = _variables(vectors, order)
    optimizer.build(variables)
    clipped = 0
    for step in range(table["steps"]):
        rate = float(optimizer.current_learning_rate())
        assert rate == pytest.approx(table["learning_rate"][step], abs=1e-8)
        gradients = [vectors[f"grad::{name}"][step] for name in order]
        _, _, norm = optimizer.sum_and_clip(gradients)
        expected = float(vectors["global_norm_before_clip"][step])
        assert float(norm) == pytest.approx(expected, rel=1e-5)
        clipped += expected > 1
        optimizer.apply(gradients, variables)
        for name, variable in zip(order, variables, strict=True):
            value = vectors[f"param::{name}"][step]
            assert np.abs(variable.numpy() - value).max() <= 2e-6, (step, name)
    assert 0 < clipped < table["steps"]
    for name, variable in zip(order, variables, strict=True):
        first, second = optimizer.slots(variable)
        assert np.abs(first.numpy() - vectors[f"adam_m::{name}"]).max() <= 2e-6
        assert np.abs(second.numpy() - vectors[f"adam_v::{name}"]).max() <= 2e-6
    assert int(optimizer.iterations) == table["final_global_step"]


def test_every_step_of_layer_wise_fine_tuning_equals_the_official_one() -> None:
    folder = golden("optimizer")
    table = json.loads((folder / "finetune_layerwise.json").read_text())
    vectors = np.load(folder / "finetune_layerwise.npz")
    hparams, order = table["hparams"], table["variable_order"]
    total = hparams["num_train_steps"]
    decay = hparams["layerwise_lr_decay_power"]
    multipliers = [
        ("embeddings", decay**4),
        ("layer_0", decay**3),
        ("layer_1", decay**2),
    ]
    optimizer = AdamW(
        WarmupLinearDecay(
            hparams["learning_rate"], total, hparams["warmup_proportion"] * total
        ),
        exclude_from_weight_decay=("LayerNorm", "bias"),
        learning_rate_multipliers=multipliers,
    )
    variables = _variables(vectors, order)
    for step in range(table["steps"]):
        gradients = [tf.constant(vectors[f"grad::{name}"][step]) for name in order]
        optimizer.apply(gradients, variables)
        for name, variable in zip(order, variables, strict=True):
            value = vectors[f"param::{name}"][step]
            assert np.abs(variable.numpy() - value).max() <= 2e-6, (step, name)


@pytest.mark.parametrize("task", ["cola", "squad"])
def test_layer_wise_rates_equal_the_official_table(task: str) -> None:
    table = json.loads(
        golden(f"optimizer/layerwise_lr_table_lvbert_{task}.json").read_text()
    )
    multipliers = dict(layer_wise_decay(num_layers=24, decay=table["layer_decay"]))
    ours = {
        "/embeddings/": multipliers[r"(^|/)embeddings/"],
        "/embeddings_project/": multipliers[r"(^|/)encoder/projection/"],
        "task_specific/": 1.0,
    }
    for pair in range(table["n_layers"]):
        for half in (2 * pair, 2 * pair + 1):
            factor = multipliers[rf"(^|/)encoder/layer_{half}_"]
            ours.setdefault(f"encoder/layer_{pair}/", factor)
            assert ours[f"encoder/layer_{pair}/"] == factor
    for key, rate in table["key_table"].items():
        expected = rate / table["base_learning_rate"]
        assert ours[key] == pytest.approx(expected, rel=1e-6), key


def test_the_official_clipping_norm_counts_every_occurrence_of_a_token() -> None:
    vectors = np.load(golden("optimizer") / "sparse_embedding_clip.npz")
    table = TokenEmbedding(11, 4)
    table.build(None)
    kernel = keras.Variable(vectors["kernel_init"], name="kernel")
    table.embeddings.assign(vectors["embedding_init"])
    variables = [table.embeddings, kernel]

    def gradients() -> list[Any]:
        with tf.GradientTape() as tape:
            product = tf.matmul(table(vectors["ids"]), kernel.value)
            loss = tf.reduce_sum(product * vectors["upstream"])
        return list(tape.gradient(loss, [v.value for v in variables]))

    with gradient_of_occurrences():
        sparse = gradients()
    assert isinstance(sparse[0], tf.IndexedSlices)
    dense = gradients()
    assert np.allclose(tf.convert_to_tensor(sparse[0]), dense[0], atol=1e-5)
    for official, given, name in (
        (True, sparse, "official_global_norm"),
        (True, dense, "dense_global_norm"),
        (False, sparse, "dense_global_norm"),
    ):
        optimizer = AdamW(1e-2, clip_occurrences=official)
        assert float(optimizer.sum_and_clip(given)[2]) == pytest.approx(
            float(vectors[name]), rel=1e-5
        )
    optimizer = AdamW(
        WarmupLinearDecay(1e-2, 10, 1), weight_decay=0.01, clip_occurrences=True
    )
    for step in range(2):
        with gradient_of_occurrences():
            found = gradients()
        if step == 0:
            summed, scale, _ = optimizer.sum_and_clip(found)
            for ours, name in zip(summed, ("embedding", "kernel"), strict=True):
                official = vectors[f"clipped_{name}_grad"]
                assert np.abs(ours * scale - official).max() <= 2e-6, name
        optimizer.apply(found, variables)
    for variable, name in zip(variables, ("embedding", "kernel"), strict=True):
        difference = variable.numpy() - vectors[f"{name}_after_2_steps"]
        assert np.abs(difference).max() <= 2e-6, name


def test_configuration_round_trip() -> None:
    optimizer = AdamW(
        WarmupLinearDecay(1e-3, 100, 10),
        weight_decay=0.1,
        beta_1=0.8,
        beta_2=0.9,
        epsilon=1e-5,
        clip_norm=None,
        exclude_from_weight_decay=["gamma"],
        learning_rate_multipliers=[("a", 0.5)],
        clip_occurrences=True,
        name="other",
    )
    config = keras.optimizers.serialize(optimizer)
    again = keras.optimizers.deserialize(config)
    assert again.get_config() == optimizer.get_config()
    assert isinstance(again, AdamW)


def test_a_missing_gradient_leaves_its_variable_alone() -> None:
    used, unused = keras.Variable([1.0]), keras.Variable([1.0])
    optimizer = AdamW(0.1, clip_norm=None)
    optimizer.apply([tf.constant([1.0]), None], [used, unused])
    assert float(unused[0]) == 1.0
    assert float(used[0]) < 1.0
    with pytest.raises(ValueError, match="Received: None for each of 2"):
        optimizer.apply([None, None], [used, unused])


@pytest.mark.parametrize(("total", "warmup"), [(0, 0), (10, -1)])
def test_an_impossible_schedule_is_refused(total: int, warmup: int) -> None:
    with pytest.raises(ValueError, match=f"total_steps={total}"):
        WarmupLinearDecay(1e-3, total, warmup)
