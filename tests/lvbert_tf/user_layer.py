"""A layer type as a user adds one: this file, and nothing in the library."""

from typing import Any

import keras
from keras import ops

import lvbert_tf


@keras.saving.register_keras_serializable(package="tests")
class AveragePool(keras.layers.Layer):
    """Each token becomes the mean of its real neighbours, then one dense layer."""

    def __init__(self, hidden_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.dense = keras.layers.Dense(
            hidden_dim, dtype=self.dtype_policy, name="dense"
        )

    def build(self, inputs_shape: Any, padding_mask_shape: Any = None) -> None:
        """Creates the weights."""
        self.dense.build(inputs_shape)
        self.built = True

    def call(self, inputs: Any, padding_mask: Any = None, training: Any = None) -> Any:
        """Maps (B, T, H) to (B, T, H)."""
        real = ops.ones_like(inputs[:, :, :1])
        if padding_mask is not None:
            real = ops.cast(padding_mask, inputs.dtype)[:, :, None]
        both = ops.concatenate([inputs * real, real], axis=-1)
        padded = ops.pad(both, ((0, 0), (1, 1), (0, 0)))
        sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
        return self.dense(sums[..., :-1] / ops.maximum(sums[..., -1:], 1.0))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "hidden_dim": self.hidden_dim}


lvbert_tf.register_layer(
    "p",
    lambda options, **kwargs: AveragePool(options.hidden_dim, **kwargs),
    name="average pool",
    parameters=lambda d: d.hidden_dim * d.hidden_dim + 3 * d.hidden_dim,
    flops=lambda d, tokens: 2.0 * tokens * d.hidden_dim * d.hidden_dim,
)
