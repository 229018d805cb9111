"""What surrounds each layer of the encoder, whatever its type."""

from typing import Any

import keras

from lvbert_tf.layers.dropout import Dropout
from lvbert_tf.layers.embeddings import layer_norm


@keras.saving.register_keras_serializable(package="lvbert_tf")
class ResidualLayer(keras.layers.Layer):
    """`LayerNorm(x + dropout(layer(x)))`: the post-LayerNorm form of BERT.

    Args:
        layer: maps (B, T, H) to (B, T, H), see `lvbert_tf.layers.registry`.
        dropout: dropout rate of the layer's output.

    Call arguments:
        inputs: (B, T, H).
        padding_mask: (B, T), 1 for real tokens, 0 for padding; or None.
        training: whether to drop.

    Returns:
        (B, T, H).
    """

    def __init__(
        self, layer: keras.layers.Layer, dropout: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.layer = layer
        self.dropout_rate = dropout
        self.supports_masking = True
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.layer_norm = layer_norm(self.dtype_policy)

    def build(
        self, inputs_shape: tuple[int | None, ...], padding_mask_shape: Any = None
    ) -> None:
        """Creates the weights for inputs (B, T, H)."""
        if not self.layer.built:  # a deserialised one is
            self.layer.build(inputs_shape)
        self.dropout.build(None)
        self.layer_norm.build(inputs_shape)
        self.built = True

    def call(
        self, inputs: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Transforms (B, T, H) to (B, T, H)."""
        outputs = self.layer(inputs, padding_mask=padding_mask, training=training)
        return self.layer_norm(inputs + self.dropout(outputs, training=training))

    def compute_output_shape(
        self, inputs_shape: Any, padding_mask_shape: Any = None
    ) -> Any:
        """Returns the shape of the output, which is that of the input."""
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "layer": keras.saving.serialize_keras_object(self.layer),
            "dropout": self.dropout_rate,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ResidualLayer":
        """Rebuilds the layer from `get_config()`."""
        config = dict(config)
        config["layer"] = keras.saving.deserialize_keras_object(config["layer"])
        return cls(**config)
