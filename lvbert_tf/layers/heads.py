"""The prediction heads of pretraining."""

from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.layers.embeddings import layer_norm
from lvbert_tf.layers.feed_forward import gelu
from lvbert_tf.layers.ids import check_ids
from lvbert_tf.layers.initializers import truncated_normal
from lvbert_tf.layers.precision import at_least_float32


@keras.saving.register_keras_serializable(package="lvbert_tf")
class MaskedLMHead(keras.layers.Layer):
    """Predicts the original tokens at some positions, with the tied token table.

    `LayerNorm(gelu(h W + b)) table^T + bias`, for hidden states `h` gathered at the
    positions.

    Args:
        vocabulary_size: number of logits V.
        embedding_dim: width E of the token table.

    Call arguments:
        inputs: hidden states (B, T, H).
        mask_positions: int32 (B, P).
        token_table: (V, E), the weights of the token embedding.

    Returns:
        Logits (B, P, V), float32 (float64 where the layer is).
    """

    def __init__(self, vocabulary_size: int, embedding_dim: int, **kwargs: Any) -> None:
        (vocabulary_size,) = positive_integers(vocabulary_size=vocabulary_size)
        (embedding_dim,) = positive_integers(embedding_dim=embedding_dim)
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.dense = keras.layers.Dense(
            embedding_dim,
            kernel_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = layer_norm(self.dtype_policy)

    def build(
        self,
        inputs_shape: Any,
        mask_positions_shape: Any = None,
        token_table_shape: Any = None,
    ) -> None:
        """Creates the weights for hidden states (B, T, H)."""
        self.dense.build(inputs_shape)
        self.layer_norm.build((None, None, self.embedding_dim))
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.vocabulary_size,), initializer="zeros"
        )
        self.built = True

    def call(
        self,
        inputs: Any,
        mask_positions: Any,
        token_table: Any,
        training: bool | None = None,
    ) -> Any:
        """Predicts (B, P, V) from (B, T, H) at (B, P)."""
        check_ids("mask_positions", mask_positions)
        positions = ops.expand_dims(mask_positions, 2)
        hidden = ops.take_along_axis(inputs, positions, axis=1)
        hidden = self.layer_norm(gelu(self.dense(hidden), training))
        table = ops.cast(token_table, hidden.dtype)
        logits = at_least_float32(ops.matmul(hidden, ops.transpose(table)))
        return logits + ops.cast(self.output_bias, logits.dtype)

    def compute_output_shape(
        self,
        inputs_shape: Any,
        mask_positions_shape: Any,
        token_table_shape: Any = None,
    ) -> Any:
        """Returns (B, P, V)."""
        return (*mask_positions_shape, self.vocabulary_size)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
        }


@keras.saving.register_keras_serializable(package="lvbert_tf")
class ReplacedTokenHead(keras.layers.Layer):
    """Tells for every token whether the generator replaced it.

    Args:
        hidden_dim: width H of the hidden states.

    Call arguments:
        inputs: hidden states (B, T, H).

    Returns:
        Logits (B, T), float32 (float64 where the layer is); positive means replaced.
    """

    def __init__(self, hidden_dim: int, **kwargs: Any) -> None:
        (hidden_dim,) = positive_integers(hidden_dim=hidden_dim)
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.dense = keras.layers.Dense(
            hidden_dim,
            kernel_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.logits = keras.layers.Dense(1, dtype=self.dtype_policy, name="logits")

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        """Creates the weights for hidden states (B, T, H)."""
        self.dense.build(inputs_shape)
        self.logits.build(inputs_shape)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Returns logits (B, T)."""
        logits = self.logits(gelu(self.dense(inputs), training))
        return at_least_float32(ops.squeeze(logits, axis=-1))

    def compute_output_shape(self, inputs_shape: Any) -> Any:
        """Returns (B, T)."""
        return inputs_shape[:-1]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "hidden_dim": self.hidden_dim}
