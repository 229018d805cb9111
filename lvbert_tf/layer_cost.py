"""What a layer of each letter costs: parameters and FLOPs, in closed form.

Shape letters: T tokens, E embedding width, H hidden width, I intermediate width, N
heads, K taps of the convolution, V vocabulary. Both counts exist twice, as what is
really built and by the paper's rules; `lvbert_tf.cost` sums them over architectures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lvbert_tf.presets import ModelSize, model_size


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """The sizes that a model's cost depends on, named as `LVBertBackbone` names them.

    Attributes:
        embedding_dim: E, width of the three embedding tables.
        hidden_dim: H, width of the layers.
        intermediate_dim: I, inner width of the feed-forward layers.
        num_heads: N, heads of attention and dynamic convolution.
        vocabulary_size: V, rows of the word table.
        kernel_size: K, taps of the dynamic convolution.
        max_sequence_length: rows of the position table.
        num_segments: rows of the segment table.
    """

    embedding_dim: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    vocabulary_size: int = 30522
    kernel_size: int = 9
    max_sequence_length: int = 512
    num_segments: int = 2

    def __post_init__(self) -> None:
        """Checks that every size is a positive whole number."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"`{name}` must be a whole number from 1. Received: {name}={value}"
                )

    @classmethod
    def of_size(cls, size: str | ModelSize, **overrides: int) -> "Dimensions":
        """Returns the dimensions of a size of the paper.

        Args:
            size: `"small"`, `"medium"`, `"base"` or a `ModelSize`.
            **overrides: dimensions to set otherwise, for example `vocabulary_size`.
        """
        if isinstance(size, str):
            size = model_size(size)
        values: dict[str, int] = {
            "embedding_dim": size.embedding_dim,
            "hidden_dim": size.hidden_dim,
            "intermediate_dim": size.intermediate_dim,
            "num_heads": size.num_heads,
            "kernel_size": size.kernel_size,
        }
        return cls(**{**values, **overrides})

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "Dimensions":
        """Returns the dimensions of a backbone's configuration (`get_config()`).

        Raises:
            ValueError: if the configuration lacks one of them.
        """
        missing = [name for name in cls.__dataclass_fields__ if name not in config]
        if missing:
            raise ValueError(
                f"The backbone's configuration lacks {', '.join(missing)}. "
                f"Received: {', '.join(config)}"
            )
        return cls(**{name: config[name] for name in cls.__dataclass_fields__})


ParameterFunction = Callable[[Dimensions], int]
"""The trainable parameters of one layer, its LayerNorm included."""

FlopsFunction = Callable[[Dimensions, int], float]
"""The FLOPs of one layer's forward pass over one sequence of that many tokens."""


@dataclass(frozen=True)
class LayerCost:
    """What `register_cost` was told of a letter; see there."""

    parameters: ParameterFunction
    flops: FlopsFunction
    paper_parameters: ParameterFunction
    paper_flops: FlopsFunction


_COSTS: dict[str, LayerCost] = {}


def register_cost(
    letter: str,
    *,
    parameters: ParameterFunction,
    flops: FlopsFunction,
    paper_parameters: ParameterFunction | None = None,
    paper_flops: FlopsFunction | None = None,
) -> None:
    """Tells what a layer of that letter costs; a later call replaces an earlier one.

    Args:
        letter: a letter of the architecture alphabet.
        parameters: trainable parameters of one layer with its LayerNorm.
        flops: multiplications and additions of its matrix products and convolutions in
            the forward pass over one sequence.
        paper_parameters: the same by the paper's rule; default `parameters`.
        paper_flops: the same by ELECTRA's rule; default `flops`.

    Raises:
        ValueError: if `letter` is not one character.
    """
    if len(letter) != 1:
        raise ValueError(f"`letter` must be one character. Received: letter={letter!r}")
    _COSTS[letter] = LayerCost(
        parameters, flops, paper_parameters or parameters, paper_flops or flops
    )


def layer_params(letter: str, dimensions: Dimensions) -> int:
    """Returns the trainable parameters of one layer, its LayerNorm included.

    Example:
        >>> layer_params("c", Dimensions.of_size("small"))
        275236
    """
    return layer_cost(letter).parameters(dimensions)


def layer_flops(letter: str, dimensions: Dimensions, sequence_length: int) -> float:
    """Returns the forward FLOPs of one layer over one sequence."""
    return layer_cost(letter).flops(dimensions, sequence_length)


def layer_cost(letter: str) -> LayerCost:
    """Returns what a layer of that letter costs.

    Raises:
        ValueError: if `register_cost` was not told.
    """
    if letter not in _COSTS:
        raise ValueError(
            "`letter` must be one whose cost is known: tell it by "
            f"lvbert_tf.cost.register_cost. Received: letter={letter!r}"
        )
    return _COSTS[letter]


# The three layer types. Each ends in a dense layer (a: H x H), a residual and a
# LayerNorm of 2H parameters.


def _dynamic_conv_params(d: Dimensions, kernels: int) -> int:
    h = d.hidden_dim
    glu = 2 * (h * h + h)
    separable = d.kernel_size * h + h * h + h  # depthwise, pointwise, one bias
    generator = (h + 1) * kernels * d.kernel_size
    return glu + separable + generator + (h * h + h) + 2 * h


def _dynamic_conv_flops(d: Dimensions, length: int) -> float:
    h, k = d.hidden_dim, d.kernel_size
    products = 2 * (2 * h * h + h * h + h * d.num_heads * k + h * h)
    convolutions = 2 * k * h + 2 * k * h  # depthwise; kernels over the values
    return length * (products + convolutions)


def _self_attention_params(d: Dimensions) -> int:
    h = d.hidden_dim
    return 4 * (h * h + h) + 2 * h


def _self_attention_flops(d: Dimensions, length: int) -> float:
    return length * (8 * d.hidden_dim**2 + 4 * length * d.hidden_dim)


def _feed_forward_params(d: Dimensions) -> int:
    h, i = d.hidden_dim, d.intermediate_dim
    return (h * i + i) + (i * h + h) + 2 * h


def _feed_forward_flops(d: Dimensions, length: int) -> float:
    return length * 4 * d.hidden_dim * d.intermediate_dim


# ELECTRA's counting rule: operations per activation.
DROPOUT_FLOPS, LAYER_NORM_FLOPS, GELU_FLOPS, SOFTMAX_FLOPS = 4, 5, 8, 5


def _paper_dynamic_conv_flops(d: Dimensions, length: int) -> float:
    h, taps = d.hidden_dim, d.num_heads * d.kernel_size
    glu = 2 * (2 * h * h + h) + 5 * h  # a sigmoid counted as 4, and the product
    separable = 2 * d.kernel_size * h + 2 * h * h + h
    kernels = 2 * h * taps + taps + SOFTMAX_FLOPS * taps
    mixed = 2 * d.kernel_size * h
    output = 2 * h * h + h + (DROPOUT_FLOPS + 1 + LAYER_NORM_FLOPS) * h
    return length * (glu + separable + kernels + mixed + output)


def _paper_self_attention_flops(d: Dimensions, length: int) -> float:
    h, n = d.hidden_dim, d.num_heads
    inputs = 3 * (2 * h * h + h)
    # softmax, dropout and scaling of N scores per pair of tokens
    score_flops = SOFTMAX_FLOPS + DROPOUT_FLOPS + 1
    scores = 2 * h * length + score_flops * length * n + 2 * h * length
    # The published script counts this LayerNorm once, not per activation.
    output = 2 * h * h + h + (DROPOUT_FLOPS + 1) * h + LAYER_NORM_FLOPS
    return length * (inputs + scores + output)


def _paper_feed_forward_flops(d: Dimensions, length: int) -> float:
    h, i = d.hidden_dim, d.intermediate_dim
    inner = 2 * h * i + (GELU_FLOPS + 1) * i
    return length * (inner + 2 * h * i + h + (DROPOUT_FLOPS + 1 + LAYER_NORM_FLOPS) * h)


register_cost(
    "c",
    parameters=lambda d: _dynamic_conv_params(d, d.num_heads),
    flops=_dynamic_conv_flops,
    paper_parameters=lambda d: _dynamic_conv_params(d, 1),
    paper_flops=_paper_dynamic_conv_flops,
)
register_cost(
    "s",
    parameters=_self_attention_params,
    flops=_self_attention_flops,
    paper_flops=_paper_self_attention_flops,
)
register_cost(
    "f",
    parameters=_feed_forward_params,
    flops=_feed_forward_flops,
    paper_flops=_paper_feed_forward_flops,
)
