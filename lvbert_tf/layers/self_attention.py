"""The self-attention layer `s` (paper, appendix A; Vaswani et al., 2017)."""

from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import check_rates, positive_integers
from lvbert_tf.layers.dropout import Dropout
from lvbert_tf.layers.initializers import truncated_normal
from lvbert_tf.layers.masks import attention_bias


@keras.saving.register_keras_serializable(package="lvbert_tf")
class SelfAttention(keras.layers.Layer):
    """Scaled dot-product attention with several heads, and its output dense layer.

    `softmax(Q K^T / sqrt(D) + bias) V` for each head, heads joined, then one dense.
    Scores and softmax are float32 whatever the compute dtype.

    Args:
        hidden_dim: width H of input and output.
        num_heads: number of heads N; it must divide H, and D = H / N.
        attention_dropout: dropout rate of the attention probabilities.

    Call arguments:
        inputs: (B, T, H) in the compute dtype.
        padding_mask: (B, T), 1 for real tokens, 0 for padding; or None.
        training: whether to drop.

    Returns:
        (B, T, H).

    Masking:
        Padded keys get no weight. A row of nothing but padding attends to all of it,
        so that its outputs stay finite.

    Cost:
        4 H H + 4 H parameters; 8 T H H + 4 T T H floating-point operations.

    Raises:
        ValueError: if `num_heads` does not divide `hidden_dim`.
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        attention_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        hidden_dim, num_heads = positive_integers(
            hidden_dim=hidden_dim, num_heads=num_heads
        )
        check_rates(attention_dropout=attention_dropout)
        if hidden_dim % num_heads:
            raise ValueError(
                "`num_heads` must divide `hidden_dim`. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.supports_masking = True
        self.query = self._dense("query")
        self.key = self._dense("key")
        self.value = self._dense("value")
        self.output_dense = self._dense("output_dense")
        self.dropout = Dropout(
            attention_dropout, dtype=self.dtype_policy, name="attention_dropout"
        )

    def _dense(self, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            self.hidden_dim,
            kernel_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(
        self, inputs_shape: tuple[int | None, ...], padding_mask_shape: Any = None
    ) -> None:
        """Creates the weights for inputs (B, T, H)."""
        for dense in (self.query, self.key, self.value, self.output_dense):
            dense.build(inputs_shape)
        self.dropout.build(None)
        self.built = True

    def attention_probabilities(self, inputs: Any, padding_mask: Any = None) -> Any:
        """Returns the softmax weights, before dropout.

        Args:
            inputs: (B, T, H).
            padding_mask: (B, T) or None.

        Returns:
            float32 (B, N, T, T); the last axis are the keys and sums to 1.
        """
        scale = (self.hidden_dim // self.num_heads) ** -0.5
        shape = ops.shape(inputs)
        queries = self._split(self.query(inputs) * scale, shape, (0, 2, 1, 3))
        keys = self._split(self.key(inputs), shape, (0, 2, 3, 1))
        scores = ops.cast(ops.matmul(queries, keys), self._softmax_dtype())
        if padding_mask is not None:
            scores = scores + ops.cast(attention_bias(padding_mask), scores.dtype)
        return ops.softmax(scores, axis=-1)

    def call(
        self, inputs: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Transforms (B, T, H) to (B, T, H)."""
        probabilities = self.attention_probabilities(inputs, padding_mask)
        probabilities = ops.cast(probabilities, self.compute_dtype)
        probabilities = self.dropout(probabilities, training=training)
        values = self._split(self.value(inputs), ops.shape(inputs), (0, 2, 1, 3))
        mixed = ops.transpose(ops.matmul(probabilities, values), (0, 2, 1, 3))
        return self.output_dense(ops.reshape(mixed, ops.shape(inputs)))

    def _softmax_dtype(self) -> str:
        return "float64" if self.compute_dtype == "float64" else "float32"

    def _split(self, x: Any, shape: Any, axes: tuple[int, ...]) -> Any:
        """Splits (B, T, H) into heads (B, T, N, D), then transposes by `axes`.

        B and T are read from `shape`, that of the layer's inputs: tf2onnx drops the
        Add of a bias that is all zero, merges this reshape with the one inside the
        dense layer, and would then read them from a matrix (B * T, H).
        """
        head_dim = self.hidden_dim // self.num_heads
        heads = ops.reshape(x, (shape[0], shape[1], self.num_heads, head_dim))
        return ops.transpose(heads, axes)

    def compute_output_shape(
        self, inputs_shape: Any, padding_mask_shape: Any = None
    ) -> Any:
        """Returns the shape of the output, which is that of the input."""
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "attention_dropout": self.attention_dropout,
        }
