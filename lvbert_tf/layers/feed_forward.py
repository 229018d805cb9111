"""The feed-forward layer `f` (paper, appendix A; Vaswani et al., 2017)."""

from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import check_flags, positive_integers
from lvbert_tf.layers.initializers import truncated_normal


def gelu(x: Any, training: bool | None = None) -> Any:
    """Returns x * Phi(x), the exact form, in operations that ONNX has.

    TensorFlow lowers `keras.activations.gelu(approximate=False)` to Erfc, which no
    ONNX operator set holds. LiteRT has no erf either, and an operator for the whole,
    which its converter finds only in this order of operations: `(x / 2) (1 + erf)`.

    Args:
        x: float tensor of any shape.
        training: whether a gradient will be asked for. Then its slope
            `Phi(x) + x phi(x)` is computed at once and is all that is kept, a quarter
            less time than differentiating operation by operation. A graph for
            inference is better without: a saved one can't hold such a gradient.
    """
    return _gelu_with_slope(x) if training else (0.5 * x) * (1.0 + _erf(x))


def _erf(x: Any) -> Any:
    return ops.erf(x * 0.7071067811865476)


@ops.custom_gradient
def _gelu_with_slope(x: Any) -> Any:
    cdf = 0.5 + 0.5 * _erf(x)
    density = 0.3989422804014327 * ops.exp(-0.5 * ops.square(x))
    slope = cdf + x * density

    def gradient(upstream: Any) -> Any:
        return upstream * slope

    return x * cdf, gradient


@keras.saving.register_keras_serializable(package="lvbert_tf")
class FeedForward(keras.layers.Layer):
    """Two dense layers with a GELU between: `gelu(x W1 + b1) W2 + b2`.

    Args:
        hidden_dim: width H of input and output.
        intermediate_dim: width F between the two.
        approximate_gelu: whether the GELU is the approximation by tanh, as in some
            published encoders; it differs from the exact one by up to 5e-4.

    Call arguments:
        inputs: (B, T, H) in the compute dtype.
        padding_mask: ignored; every position is computed on its own.

    Returns:
        (B, T, H).

    Cost:
        2 H F + F + H parameters; 4 T H F floating-point operations a sequence.
    """

    def __init__(
        self,
        hidden_dim: int,
        intermediate_dim: int,
        approximate_gelu: bool = False,
        **kwargs: Any,
    ) -> None:
        (hidden_dim,) = positive_integers(hidden_dim=hidden_dim)
        (intermediate_dim,) = positive_integers(intermediate_dim=intermediate_dim)
        check_flags(approximate_gelu=approximate_gelu)
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.approximate_gelu = approximate_gelu
        self.supports_masking = True
        self.intermediate = keras.layers.Dense(
            intermediate_dim,
            kernel_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name="intermediate",
        )
        self.output_dense = keras.layers.Dense(
            hidden_dim,
            kernel_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name="output_dense",
        )

    def build(
        self, inputs_shape: tuple[int | None, ...], padding_mask_shape: Any = None
    ) -> None:
        """Creates the weights for inputs (B, T, H)."""
        self.intermediate.build(inputs_shape)
        self.output_dense.build((*inputs_shape[:-1], self.intermediate_dim))
        self.built = True

    def call(
        self, inputs: Any, padding_mask: Any = None, training: bool | None = None
    ) -> Any:
        """Transforms (B, T, H) to (B, T, H)."""
        inner = self.intermediate(inputs)
        if self.approximate_gelu:
            inner = keras.activations.gelu(inner, approximate=True)
        else:
            inner = gelu(inner, training)
        return self.output_dense(inner)

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
            "intermediate_dim": self.intermediate_dim,
            "approximate_gelu": self.approximate_gelu,
        }
