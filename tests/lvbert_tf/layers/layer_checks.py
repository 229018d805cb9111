"""What every layer of the encoder must pass, whoever wrote it."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

BATCH, TOKENS, HIDDEN = 3, 24, 16


def inputs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32 (B, T, H) and an int32 mask with a row of nothing but padding."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(BATCH, TOKENS, HIDDEN)).astype("float32")
    mask = (np.arange(TOKENS) < np.array([TOKENS, 13, 0])[:, None]).astype("int32")
    return x, mask


def check_config_round_trip(layer: keras.layers.Layer) -> None:
    """The configuration rebuilds an equal layer and names every argument."""
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    import inspect

    parameters = set(inspect.signature(type(layer).__init__).parameters)
    assert parameters - {"self", "kwargs"} <= set(config)


def check_weights_round_trip(layer: Any, path: Any) -> None:
    """A model around the layer loads in place and gives equal outputs."""
    x, mask = inputs()
    states = keras.Input((None, HIDDEN))
    masks = keras.Input((None,), dtype="int32")
    model = keras.Model([states, masks], layer(states, padding_mask=masks))
    model.save(path)
    loaded = keras.models.load_model(path)
    assert np.array_equal(loaded([x, mask]), model([x, mask]))


def check_padding_cannot_leak(layer: Any) -> None:
    """What stands in the padding moves no output or gradient of a real token."""
    x, mask = inputs()
    noise = np.random.default_rng(1).normal(size=x.shape).astype("float32") * 10
    other = np.where(mask[..., None] == 1, x, noise)
    real = mask[..., None].astype("float32")
    results = []
    for values in (x, other):
        source = tf.constant(values)
        with tf.GradientTape() as tape:
            tape.watch(source)
            outputs = layer(source, padding_mask=tf.constant(mask))
            loss = tf.reduce_sum(outputs * real * tf.constant(x[:, ::-1]))
        variables = [v.value for v in layer.trainable_variables]
        gradients = tape.gradient(loss, [source, *variables])
        results.append([outputs * real, gradients[0] * real, *gradients[1:]])
    for ours, theirs in zip(*results, strict=True):
        assert np.abs(np.asarray(ours) - np.asarray(theirs)).max() <= 1e-5


def check_finite_in(make_layer: Any, dtype: str) -> None:
    """Outputs and gradients are finite in a mixed dtype, rows of padding included."""
    layer = make_layer(dtype=dtype)
    x, mask = inputs()
    source = tf.constant(x * 30)
    with tf.GradientTape() as tape:
        tape.watch(source)
        outputs = layer(source, padding_mask=tf.constant(mask), training=True)
        loss = tf.reduce_sum(tf.cast(outputs, tf.float32))
    variables = [v.value for v in layer.trainable_variables]
    for gradient in tape.gradient(loss, [source, *variables]):
        assert np.isfinite(np.asarray(tf.cast(gradient, tf.float32))).all()
    assert np.isfinite(np.asarray(tf.cast(outputs, tf.float32))).all()
    assert outputs.dtype.name == dtype.removeprefix("mixed_")


def check_cost(layer: Any, letter: str, dimensions: Any) -> None:
    """The closed form equals the real number of parameters."""
    from lvbert_tf.cost import layer_params

    assert layer.count_params() == layer_params(letter, dimensions)
