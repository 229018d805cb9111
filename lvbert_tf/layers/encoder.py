"""The encoder: a projection to the hidden width, then the layers of a string."""

from typing import Any

import keras

from lvbert_tf.architecture import Architecture, ArchitectureSpec
from lvbert_tf.layers.registry import LayerOptions, make_layer
from lvbert_tf.layers.residual import ResidualLayer


def make_residual_layer(
    letter: str, options: LayerOptions, dropout: float, dtype: Any, name: str
) -> ResidualLayer:
    """Returns a new layer of that letter with its dropout, residual and LayerNorm."""
    return ResidualLayer(
        make_layer(letter, options, dtype=dtype, name="layer"),
        dropout=dropout,
        dtype=dtype,
        name=name,
    )


def make_projection(hidden_dim: int, dtype: Any) -> keras.layers.Dense:
    """Returns the dense layer from the embeddings' width to the encoder's."""
    return keras.layers.Dense(hidden_dim, dtype=dtype, name="projection")


@keras.saving.register_keras_serializable(package="lvbert_tf")
class Encoder(keras.layers.Layer):
    """Layers assembled from an architecture string.

    A projection (with bias, without norm or dropout) stands before them if the input
    is of another width than `hidden_dim`.

    Args:
        architecture: what `Architecture.parse` reads.
        hidden_dim: width H.
        intermediate_dim: width F inside feed-forward layers.
        num_heads: heads N of attention and dynamic convolution.
        kernel_size: neighbours K of dynamic convolution.
        dropout: dropout rate of each layer's output.
        attention_dropout: dropout rate of attention probabilities.
        mask_convolution: whether convolutions see zeros in the padding.
        approximate_gelu: whether feed-forward layers approximate GELU by tanh.

    Call arguments:
        inputs: (B, T, E).
        padding_mask: (B, T), 1 for real tokens, 0 for padding; or None.
        training: whether to drop.

    Returns:
        (B, T, H), the output of the top layer.
    """

    def __init__(
        self,
        architecture: ArchitectureSpec,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        kernel_size: int = 9,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        mask_convolution: bool = True,
        approximate_gelu: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.architecture = Architecture.parse(architecture)
        self.options = LayerOptions(
            hidden_dim=hidden_dim,
            intermediate_dim=intermediate_dim,
            num_heads=num_heads,
            kernel_size=kernel_size,
            attention_dropout=attention_dropout,
            mask_convolution=mask_convolution,
            approximate_gelu=approximate_gelu,
        )
        self.dropout_rate = dropout
        self.supports_masking = True
        self.projection: keras.layers.Dense | None = None
        self.layer_list = [
            make_residual_layer(
                letter, self.options, dropout, self.dtype_policy, f"layer_{i}_{letter}"
            )
            for i, letter in enumerate(self.architecture)
        ]

    def build(
        self, inputs_shape: tuple[int | None, ...], padding_mask_shape: Any = None
    ) -> None:
        """Creates the weights for inputs (B, T, E)."""
        hidden_shape = (*inputs_shape[:-1], self.options.hidden_dim)
        if inputs_shape[-1] != self.options.hidden_dim:
            self.projection = make_projection(
                self.options.hidden_dim, self.dtype_policy
            )
            self.projection.build(inputs_shape)
        for layer in self.layer_list:
            layer.build(hidden_shape)
        self.built = True

    def project(self, inputs: Any) -> Any:
        """Returns what the bottom layer receives, (B, T, H)."""
        return inputs if self.projection is None else self.projection(inputs)

    def call(
        self, inputs: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Encodes (B, T, E) to (B, T, H)."""
        x = self.project(inputs)
        for layer in self.layer_list:
            x = layer(x, padding_mask=padding_mask, training=training)
        return x

    def layer_outputs(self, inputs: Any, padding_mask: Any = None) -> list[Any]:
        """Returns the output (B, T, H) of every layer, bottom first, no dropout."""
        x = self.project(inputs)
        outputs = []
        for layer in self.layer_list:
            x = layer(x, padding_mask=padding_mask, training=False)
            outputs.append(x)
        return outputs

    def compute_output_shape(
        self, inputs_shape: Any, padding_mask_shape: Any = None
    ) -> Any:
        """Returns (B, T, H)."""
        return (*inputs_shape[:-1], self.options.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "architecture": str(self.architecture),
            "hidden_dim": self.options.hidden_dim,
            "intermediate_dim": self.options.intermediate_dim,
            "num_heads": self.options.num_heads,
            "kernel_size": self.options.kernel_size,
            "dropout": self.dropout_rate,
            "attention_dropout": self.options.attention_dropout,
            "mask_convolution": self.options.mask_convolution,
            "approximate_gelu": self.options.approximate_gelu,
        }
