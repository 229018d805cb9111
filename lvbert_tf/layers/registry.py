"""From a letter of an architecture string to the layer that it stands for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from lvbert_tf.architecture import letters, register_letter
from lvbert_tf.layer_cost import FlopsFunction, ParameterFunction, register_cost
from lvbert_tf.layers.dynamic_conv import DynamicConv
from lvbert_tf.layers.feed_forward import FeedForward
from lvbert_tf.layers.self_attention import SelfAttention


@dataclass(frozen=True)
class LayerOptions:
    """What a layer may want to know of the encoder that it is part of.

    Attributes:
        hidden_dim: width H of its input and output.
        intermediate_dim: width F inside a feed-forward layer.
        num_heads: heads N.
        kernel_size: neighbours K of a dynamic convolution.
        attention_dropout: dropout rate of attention probabilities.
        mask_convolution: whether convolutions see zeros in the padding.
        approximate_gelu: whether feed-forward layers approximate GELU by tanh.
    """

    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    kernel_size: int = 9
    attention_dropout: float = 0.1
    mask_convolution: bool = True
    approximate_gelu: bool = False


LayerFactory = Callable[..., keras.layers.Layer]
"""Called as ``factory(options, dtype=..., name=...)``.

The layer's `call(inputs, padding_mask=None, training=None)` maps (B, T, H) to
(B, T, H); dropout of its output, residual and LayerNorm are put around it.
"""

_FACTORIES: dict[str, LayerFactory] = {}


def register_layer(
    letter: str,
    factory: LayerFactory,
    *,
    name: str,
    parameters: ParameterFunction,
    flops: FlopsFunction,
) -> None:
    """Adds a layer type: from then on its letter works everywhere.

    Args:
        letter: its letter in architecture strings.
        factory: makes the layer, see `LayerFactory`.
        name: what the layer is called, for people.
        parameters: trainable parameters of the layer with its LayerNorm.
        flops: floating-point operations of its forward pass over one sequence.
    """
    register_letter(letter, name)
    register_cost(letter, parameters=parameters, flops=flops)
    _FACTORIES[letter] = factory


def make_layer(letter: str, options: LayerOptions, **kwargs: Any) -> keras.layers.Layer:
    """Returns a new layer of the type that `letter` stands for.

    Args:
        letter: a letter of `lvbert_tf.architecture.letters()`.
        options: the sizes.
        **kwargs: `dtype` and `name` of the layer.
    """
    if letter not in _FACTORIES:
        raise ValueError(
            f"No layer is registered for {letter!r}. Known letters: {letters()}. "
            f"Received: letter={letter!r}"
        )
    return _FACTORIES[letter](options, **kwargs)


def _dynamic_conv(options: LayerOptions, **kwargs: Any) -> DynamicConv:
    return DynamicConv(
        options.hidden_dim,
        options.num_heads,
        kernel_size=options.kernel_size,
        mask_convolution=options.mask_convolution,
        **kwargs,
    )


def _self_attention(options: LayerOptions, **kwargs: Any) -> SelfAttention:
    return SelfAttention(
        options.hidden_dim,
        options.num_heads,
        attention_dropout=options.attention_dropout,
        **kwargs,
    )


def _feed_forward(options: LayerOptions, **kwargs: Any) -> FeedForward:
    return FeedForward(
        options.hidden_dim,
        options.intermediate_dim,
        approximate_gelu=options.approximate_gelu,
        **kwargs,
    )


_FACTORIES.update({"c": _dynamic_conv, "s": _self_attention, "f": _feed_forward})
