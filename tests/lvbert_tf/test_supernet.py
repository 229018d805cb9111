"""The supernet: one path a step, as if its layers were alone."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertSupernet
from lvbert_tf.layers.dropout import salted
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import TINY_SIZES, VOCABULARY_SIZE, pretraining_batch

LAYERS = 4


def _supernet(dropout: float = 0.0, letters: str = "csf", **kwargs: Any) -> Any:
    keras.utils.set_random_seed(1)
    supernet = LVBertSupernet(
        VOCABULARY_SIZE,
        letters=letters,
        num_layers=LAYERS,
        dropout=dropout,
        attention_dropout=dropout,
        **TINY_SIZES,
        **kwargs,
    )
    supernet.compile(optimizer=AdamW(1e-2, weight_decay=0.1))
    supernet.optimizer.build(supernet.trainable_variables)
    return supernet


def _state(supernet: Any) -> dict[str, np.ndarray]:
    """Returns weights and both moments of everything, by path."""
    state = {}
    for variable in supernet.trainable_variables:
        moments = supernet.optimizer.slots(variable)
        state[variable.path] = np.stack(
            [np.asarray(v.numpy()) for v in (variable, *moments)]
        )
    return state


def test_a_step_moves_only_what_it_sampled() -> None:
    supernet = _supernet()
    step = tf.function(supernet.train_step, autograph=False)
    draw = np.random.default_rng(0)
    for i in range(6):  # warm momenta everywhere
        step(pretraining_batch(i, route=list(draw.integers(0, 3, LAYERS)), step=i))
    for route in ([0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]):
        before = _state(supernet)
        step(pretraining_batch(7, route=route, step=7))
        after = _state(supernet)
        taken = {f"layer_{i}_{'csf'[letter]}/" for i, letter in enumerate(route)}
        for path, value in before.items():
            same = np.array_equal(value, after[path])
            on_path = "layer_" not in path.split("encoder/")[-1] or any(
                name in path for name in taken
            )
            if "encoder/" not in path:
                on_path = True
            assert same != on_path, path
    assert step.experimental_get_tracing_count() == 1


def test_routes_never_trace_again_and_eager_use_agrees() -> None:
    supernet = _supernet()
    batch = pretraining_batch(0, route=[0, 1, 2, 0])
    test_step = tf.function(supernet.test_step, autograph=False)
    for route in ([0, 1, 2, 0], [2, 2, 2, 2], [0, 0, 0, 0]):
        batch["route"] = tf.constant([route] * 4, tf.int32)
        graph, eager = test_step(batch), supernet.test_step(batch)
        assert {k: float(v) for k, v in graph.items()} == pytest.approx(
            {k: float(v) for k, v in eager.items()}
        )
    assert test_step.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("architecture", ["cscf", "ffss", "cccc"])
def test_a_path_equals_the_model_extracted_from_it(architecture: str) -> None:
    supernet = _supernet()
    batch = pretraining_batch(3, route=supernet.route(architecture))
    model = supernet.extract(architecture)
    ours = supernet.test_step(batch)
    theirs = model.test_step(batch)
    for name, value in ours.items():
        assert float(value) == pytest.approx(float(theirs[name]), rel=1e-6), name
    assert np.abs(supernet(batch) - model.predict_on_batch(_inputs(batch))).max() < 1e-6


def _inputs(batch: dict[str, Any]) -> dict[str, Any]:
    names = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
    return {name: batch[name] for name in names}


def test_a_step_equals_that_of_the_extracted_model() -> None:
    supernet = _supernet()
    architecture = "scfc"
    model = supernet.extract(architecture)
    model.compile(optimizer=AdamW(1e-2, weight_decay=0.1))
    routed = tf.function(supernet.train_step, autograph=False)
    static = tf.function(model.train_step, autograph=False)
    model.optimizer.build(model.trainable_variables)
    for i in range(3):
        batch = pretraining_batch(i, route=supernet.route(architecture), step=i)
        ours, theirs = routed(batch), static(batch)
        for name, value in theirs.items():
            assert float(ours[name]) == pytest.approx(float(value), rel=1e-5), name
    again = supernet.extract(architecture)
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        assert np.abs(ours.numpy() - theirs.numpy()).max() < 1e-6, ours.path


def test_dropout_is_a_function_of_seed_and_step() -> None:
    supernet = _supernet(dropout=0.5)
    batch = pretraining_batch(0, route=[0, 1, 2, 1])

    def logits(seed: int, step: int) -> np.ndarray:
        supernet.run_seed = seed
        batch["step"] = tf.fill((4,), tf.constant(step, tf.int64))
        return np.asarray(tf.function(supernet.call)(batch, training=True))

    assert np.array_equal(logits(1, 5), logits(1, 5))
    assert not np.allclose(logits(1, 5), logits(1, 6))
    assert not np.allclose(logits(1, 5), logits(2, 5))


def test_positions_drop_differently() -> None:
    supernet = _supernet(dropout=0.5)
    encoder = supernet.encoder
    for i in range(1, LAYERS):
        encoder.positions[i][2].set_weights(encoder.positions[0][2].get_weights())
    x, mask = tf.ones((1, 8, 16)), tf.ones((1, 8), tf.int32)
    route = tf.constant([2] * LAYERS)

    @tf.function
    def one_layer(position: int) -> Any:
        """The layer at a position alone: what it adds, with its own mask."""
        slots = encoder.read_slots(route)
        seed = salted(tf.constant([1, 2]), (position + 1) * 0x85EBCA6B)
        routed = encoder._routed
        return routed.encode_for_gradient(route[:1], x, mask, seed[None], slots[:1])

    assert np.array_equal(one_layer(0), one_layer(0))
    assert not np.allclose(one_layer(0), one_layer(1))


def test_a_batch_without_masked_tokens_is_harmless() -> None:
    supernet = _supernet()
    batch = pretraining_batch(0, route=[0, 1, 2, 0])
    batch["mask_weights"] = tf.zeros_like(batch["mask_weights"])
    metrics = supernet.train_step(batch)
    assert float(metrics["loss"]) == 0.0
    assert all(np.isfinite(float(value)) for value in metrics.values())
    assert all(np.isfinite(v.numpy()).all() for v in supernet.trainable_variables)


def test_every_weight_exists_before_the_first_call() -> None:
    supernet = _supernet()
    per_position = 11 + 2 + 8 + 2 + 4 + 2  # c, s, f, each with its LayerNorm
    shared = 3 + 2 + 2 + 2 + 2 + 1  # tables, norm, projection, head
    assert len(supernet.weights) == LAYERS * per_position + shared


def test_weights_load_into_a_supernet_that_was_never_called(tmp_path: Any) -> None:
    supernet = _supernet()
    batch = pretraining_batch(0, route=[0, 1, 2, 0])
    draw = np.random.default_rng(0)
    supernet.set_weights([draw.normal(size=w.shape) for w in supernet.get_weights()])
    supernet.save_to_preset(tmp_path / "preset")
    again = LVBertSupernet.from_preset(tmp_path / "preset")
    assert again.get_config() == supernet.get_config()
    assert np.array_equal(again(batch), supernet(batch))
    supernet.save(tmp_path / "supernet.keras")
    loaded = keras.models.load_model(tmp_path / "supernet.keras")
    assert np.array_equal(loaded(batch), supernet(batch))


@pytest.mark.parametrize(
    ("architecture", "message"),
    [("csf", "must have 4 layers"), ("csfcs", "with 5 layers"), ("cspp", "unknown")],
)
def test_a_path_of_another_supernet_is_refused(architecture: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _supernet().extract(architecture)


def test_foreign_letters_are_named() -> None:
    with pytest.raises(ValueError, match=r"\['c'\] are foreign"):
        _supernet(letters="sf").extract("sfcf")
    with pytest.raises(ValueError, match="differ from each other"):
        _supernet(letters="ss")


def test_fit_takes_routed_batches() -> None:
    supernet = _supernet(letters="sf")
    batches = [pretraining_batch(i, route=[0, 1, i % 2, 1], step=i) for i in range(4)]
    data = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature={
            k: tf.TensorSpec(v.shape, v.dtype) for k, v in batches[0].items()
        },
    )
    history = supernet.fit(
        data.repeat(), epochs=2, steps_per_epoch=4, verbose=0, shuffle=False
    ).history
    assert np.isfinite(history["loss"]).all()
    assert int(supernet.optimizer.iterations) == 8


def test_twenty_steps_warn_of_nothing(
    recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    """Most layers have no gradient in a step, which is nobody's mistake."""
    supernet = _supernet(dropout=0.1)
    step = tf.function(supernet.train_step, autograph=False)
    for i in range(20):
        step(pretraining_batch(i, route=[i % 3, 0, 1, (i + 1) % 3], step=i))
    output = "".join(capfd.readouterr()) + "".join(str(w.message) for w in recwarn)
    assert "radients" not in output


def test_half_precision_is_the_layers_affair() -> None:
    supernet = _supernet(dtype="mixed_bfloat16")
    batch = pretraining_batch(route=[0, 1, 2, 0])
    figures = supernet.test_step(batch)
    assert all(value.dtype == tf.float32 for value in figures.values())
    again = LVBertSupernet.from_config(supernet.get_config())
    for part in (again.encoder, again.embeddings, supernet.extract("cscf").backbone):
        assert part.compute_dtype == "bfloat16"
    assert all(v.dtype == "float32" for v in again.trainable_variables)
