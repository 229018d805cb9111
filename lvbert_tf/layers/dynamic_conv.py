"""The dynamic-convolution layer `c` (paper, appendix A; Wu et al., 2019)."""

from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.layers.initializers import truncated_normal
from lvbert_tf.layers.local_mixing import depthwise_over_tokens, mix_neighbours
from lvbert_tf.layers.masks import zero_padding


@keras.saving.register_keras_serializable(package="lvbert_tf")
class DynamicConv(keras.layers.Layer):
    """Each token mixes its K neighbours with weights that it predicts itself.

    With `v = (x Wl + bl) * sigmoid(x Wg + bg)` (a gated linear unit), a depthwise and
    a pointwise convolution of `v` give one vector a token, a dense layer turns it
    into K logits a head, softmax over K gives kernels, and head n of the output is
    `sum_k kernels[t, n, k] * v[t + k - K // 2]`; one dense layer follows.

    Args:
        hidden_dim: width H of input and output.
        num_heads: number of kernels N a token predicts; it must divide H.
        kernel_size: odd number of neighbours K.
        mask_convolution: whether padding is zeroed before both convolutions, so that
            what stands there cannot reach a real token. The official implementation
            does not (`False`).

    Call arguments:
        inputs: (B, T, H) in the compute dtype.
        padding_mask: (B, T), 1 for real tokens, 0 for padding; or None.

    Returns:
        (B, T, H).

    Cost:
        4 H H + K H + 4 H + (H + 1) N K parameters.

    Differences from the official code: `mask_convolution`; nothing else.

    Raises:
        ValueError: if `kernel_size` is not odd and positive, or `num_heads` does not
            divide `hidden_dim`.
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        kernel_size: int = 9,
        mask_convolution: bool = True,
        **kwargs: Any,
    ) -> None:
        hidden_dim, num_heads, kernel_size = positive_integers(
            hidden_dim=hidden_dim, num_heads=num_heads, kernel_size=kernel_size
        )
        if kernel_size % 2 == 0:
            raise ValueError(
                "`kernel_size` must be odd and positive. "
                f"Received: kernel_size={kernel_size}"
            )
        if hidden_dim % num_heads:
            raise ValueError(
                "`num_heads` must divide `hidden_dim`. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.kernel_size = kernel_size
        self.mask_convolution = mask_convolution
        self.supports_masking = True
        self.glu_linear = self._dense("glu_linear", hidden_dim)
        self.glu_gate = self._dense("glu_gate", hidden_dim)
        self.pointwise = self._dense("pointwise", hidden_dim)
        self.kernel_generator = keras.layers.Dense(
            num_heads * kernel_size, dtype=self.dtype_policy, name="kernel_generator"
        )
        self.output_dense = self._dense("output_dense", hidden_dim)

    def _dense(self, name: str, units: int) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            kernel_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(
        self, inputs_shape: tuple[int | None, ...], padding_mask_shape: Any = None
    ) -> None:
        """Creates the weights for inputs (B, T, H)."""
        self.glu_linear.build(inputs_shape)
        self.glu_gate.build(inputs_shape)
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=(self.kernel_size, self.hidden_dim),
            initializer=keras.initializers.Constant(1.0 / self.kernel_size),
        )
        self.pointwise.build(inputs_shape)
        self.kernel_generator.build(inputs_shape)
        self.output_dense.build(inputs_shape)
        self.built = True

    def values(self, inputs: Any, padding_mask: Any = None) -> Any:
        """Returns the gated values (B, T, H), zero in the padding if that is masked."""
        values = self.glu_linear(inputs) * ops.sigmoid(self.glu_gate(inputs))
        if padding_mask is not None and self.mask_convolution:
            values = zero_padding(values, padding_mask)
        return values

    def kernels(self, values: Any) -> Any:
        """Returns the predicted kernels.

        Args:
            values: (B, T, H) of `values()`.

        Returns:
            (B, T, N, K) in the compute dtype, softmax over K computed in float32.
        """
        batch, tokens = ops.shape(values)[0], ops.shape(values)[1]
        context = depthwise_over_tokens(values, self.depthwise_kernel)
        logits = self.kernel_generator(self.pointwise(context))
        logits = ops.reshape(logits, (batch, tokens, self.num_heads, self.kernel_size))
        if self.compute_dtype != "float64":
            logits = ops.cast(logits, "float32")
        return ops.cast(ops.softmax(logits, axis=-1), self.compute_dtype)

    def call(
        self, inputs: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Transforms (B, T, H) to (B, T, H)."""
        values = self.values(inputs, padding_mask)
        return self.output_dense(mix_neighbours(self.kernels(values), values))

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
            "kernel_size": self.kernel_size,
            "mask_convolution": self.mask_convolution,
        }
