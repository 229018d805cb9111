"""What an architecture costs: parameters and FLOPs, in closed form; no TensorFlow.

Shape letters: T tokens, E embedding width, H hidden width, I intermediate width, N
heads, K taps of the convolution, V vocabulary. Two figures exist twice, because the
paper's differ from what is really built: `backbone_params` and `paper_params`,
`model_flops` and `paper_flops`. See docs/architecture-strings.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lvbert_tf.architecture import Architecture, ArchitectureSpec
from lvbert_tf.architecture import letters as known_letters
from lvbert_tf.presets import SIZES, ModelSize, model_size


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
class _LayerCost:
    parameters: ParameterFunction
    flops: FlopsFunction
    paper_parameters: ParameterFunction
    paper_flops: FlopsFunction


_COSTS: dict[str, _LayerCost] = {}


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
    _COSTS[letter] = _LayerCost(
        parameters, flops, paper_parameters or parameters, paper_flops or flops
    )


def layer_params(letter: str, dimensions: Dimensions) -> int:
    """Returns the trainable parameters of one layer, its LayerNorm included.

    Example:
        >>> layer_params("c", Dimensions.of_size("small"))
        275236
    """
    return _cost(letter).parameters(dimensions)


def layer_flops(letter: str, dimensions: Dimensions, sequence_length: int) -> float:
    """Returns the forward FLOPs of one layer over one sequence."""
    return _cost(letter).flops(dimensions, sequence_length)


def backbone_params(architecture: ArchitectureSpec, dimensions: Dimensions) -> int:
    """Returns the trainable parameters of the encoder layers.

    Example:
        >>> backbone_params("lv_bert", Dimensions.of_size("small"))
        8519968
    """
    return sum(layer_params(a, dimensions) for a in Architecture.parse(architecture))


def word_embedding_params(dimensions: Dimensions) -> int:
    """Returns the size of the word table (the paper's "Word Emb" column)."""
    return dimensions.vocabulary_size * dimensions.embedding_dim


def embedding_projection_params(dimensions: Dimensions) -> int:
    """Returns the size of the projection from E to H: none where they are equal."""
    if dimensions.embedding_dim == dimensions.hidden_dim:
        return 0
    return (dimensions.embedding_dim + 1) * dimensions.hidden_dim


def total_params(architecture: ArchitectureSpec, dimensions: Dimensions) -> int:
    """Returns the trainable parameters of an `LVBertBackbone`, without a head.

    Word, position and segment tables, their LayerNorm, the projection and the layers.
    """
    rows = dimensions.max_sequence_length + dimensions.num_segments + 2
    return (
        word_embedding_params(dimensions)
        + rows * dimensions.embedding_dim
        + embedding_projection_params(dimensions)
        + backbone_params(architecture, dimensions)
    )


def paper_params(architecture: ArchitectureSpec, dimensions: Dimensions) -> int:
    """Returns the backbone's parameters as the paper's Tables 1 and 2 count them.

    They include the embedding projection, and count the generator of the dynamic
    convolution's kernels once for all heads (H x K instead of H x N*K).
    """
    layers = (_cost(a).paper_parameters for a in Architecture.parse(architecture))
    return embedding_projection_params(dimensions) + sum(
        parameters(dimensions) for parameters in layers
    )


def model_flops(
    architecture: ArchitectureSpec, dimensions: Dimensions, sequence_length: int = 128
) -> float:
    """Returns the FLOPs of the encoder's forward pass over one sequence.

    A multiplication and an addition are two. Counted are the matrix products and the
    convolutions of the projection and the layers; element-wise work is not, and looking
    up an embedding costs nothing. A training step costs three times as much (the
    backward pass has two products for each one of the forward pass).

    Args:
        architecture: any notation of `Architecture.parse`.
        dimensions: the model's sizes.
        sequence_length: T, tokens of the sequence.
    """
    _check_length(sequence_length)
    d = dimensions
    projection = 2 * d.embedding_dim * d.hidden_dim * sequence_length
    if d.embedding_dim == d.hidden_dim:
        projection = 0
    layers = Architecture.parse(architecture)
    return projection + sum(layer_flops(a, d, sequence_length) for a in layers)


def space_size(num_layers: int, num_letters: int) -> int:
    """Returns how many architectures of that many layers there are.

    Example:
        >>> space_size(24, 3)
        282429536481
    """
    size: int = num_letters**num_layers
    return size


def paper_flops(
    architecture: ArchitectureSpec,
    size: str | ModelSize,
    dimensions: Dimensions | None = None,
) -> float:
    """Returns the FLOPs of the paper's whole pretraining (the paper's Table 3).

    It follows the counting rule of the script that ELECTRA's authors published
    (`flops_computation.py` of google-research/electra): backward costs as much as
    forward, word embeddings are looked up by a dense product, element-wise work counts,
    the predicted tokens are 5/32 of all. Discriminator and generator are added, both
    with this architecture. The rule knew no dynamic convolution; it is counted in the
    same way.

    Args:
        architecture: any notation of `Architecture.parse`.
        size: whose schedule (batch, steps, length, generator) is counted.
        dimensions: the discriminator's sizes; by default those of `size`.
    """
    schedule = model_size(size) if isinstance(size, str) else size
    discriminator = dimensions or Dimensions.of_size(schedule)
    layers = Architecture.parse(architecture)
    length = schedule.sequence_length
    generator = generator_dimensions(discriminator, schedule.generator_fraction)
    forward = (
        _paper_encoder_flops(layers, discriminator, length)
        + _paper_discriminator_head_flops(discriminator, length)
        + _paper_encoder_flops(layers, generator, length)
        + _paper_masked_lm_head_flops(generator, length)
    )
    return 2 * schedule.batch_size * schedule.training_steps * forward


def generator_dimensions(discriminator: Dimensions, fraction: float) -> Dimensions:
    """Returns the sizes of ELECTRA's generator: narrower layers, the same embeddings.

    Args:
        discriminator: the sizes of the discriminator.
        fraction: the generator's share of the width, above 0.
    """
    hidden_dim = max(1, round(discriminator.hidden_dim * fraction))
    return Dimensions(
        embedding_dim=discriminator.embedding_dim,
        hidden_dim=hidden_dim,
        intermediate_dim=4 * hidden_dim,
        num_heads=max(1, hidden_dim // 64),
        vocabulary_size=discriminator.vocabulary_size,
        kernel_size=discriminator.kernel_size,
        max_sequence_length=discriminator.max_sequence_length,
        num_segments=discriminator.num_segments,
    )


def describe(
    architecture: ArchitectureSpec,
    dimensions: Dimensions,
    *,
    size: str | None = None,
    sequence_length: int = 128,
) -> dict[str, Any]:
    """Returns all figures of an architecture, as `lvbert describe` shows them.

    `space_size` is the number of architectures of that length over all known letters.

    Args:
        architecture: any notation of `Architecture.parse`.
        dimensions: the model's sizes.
        size: whose pretraining schedule `paper_flops` takes; by default that of the
            size with the same hidden width, else of `"small"`.
        sequence_length: tokens of the sequence that `model_flops` is for.
    """
    parsed = Architecture.parse(architecture)
    if size is None:
        widths = {known.hidden_dim: name for name, known in SIZES.items()}
        size = widths.get(dimensions.hidden_dim, "small")
    alphabet = known_letters()
    return {
        "architecture": str(parsed),
        "num_layers": len(parsed),
        "counts": {letter: parsed.count(letter) for letter in alphabet},
        "word_embedding_params": word_embedding_params(dimensions),
        "backbone_params": backbone_params(parsed, dimensions),
        "total_params": total_params(parsed, dimensions),
        "paper_params": paper_params(parsed, dimensions),
        "model_flops": model_flops(parsed, dimensions, sequence_length),
        "sequence_length": sequence_length,
        "paper_flops": paper_flops(parsed, size, dimensions),
        "paper_schedule": size,
        "space_size": space_size(len(parsed), len(alphabet)),
    }


def _cost(letter: str) -> _LayerCost:
    if letter not in _COSTS:
        raise ValueError(
            f"The cost of layer letter {letter!r} is not known: tell it by "
            "lvbert_tf.cost.register_cost"
        )
    return _COSTS[letter]


def _check_length(sequence_length: int) -> None:
    if sequence_length < 1:
        raise ValueError(
            "`sequence_length` must be at least 1. "
            f"Received: sequence_length={sequence_length}"
        )


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
_DROPOUT, _LAYER_NORM, _GELU, _SOFTMAX = 4, 5, 8, 5
_PREDICTED_FRACTION = 5 / 32


def _paper_dynamic_conv_flops(d: Dimensions, length: int) -> float:
    h, taps = d.hidden_dim, d.num_heads * d.kernel_size
    glu = 2 * (2 * h * h + h) + 5 * h  # a sigmoid counted as 4, and the product
    separable = 2 * d.kernel_size * h + 2 * h * h + h
    kernels = 2 * h * taps + taps + _SOFTMAX * taps
    mixed = 2 * d.kernel_size * h
    output = 2 * h * h + h + (_DROPOUT + 1 + _LAYER_NORM) * h
    return length * (glu + separable + kernels + mixed + output)


def _paper_self_attention_flops(d: Dimensions, length: int) -> float:
    h, n = d.hidden_dim, d.num_heads
    inputs = 3 * (2 * h * h + h)
    # softmax, dropout and scaling of N scores per pair of tokens
    scores = 2 * h * length + (_SOFTMAX + _DROPOUT + 1) * length * n + 2 * h * length
    # The published script counts this LayerNorm once, not per activation.
    output = 2 * h * h + h + (_DROPOUT + 1) * h + _LAYER_NORM
    return length * (inputs + scores + output)


def _paper_feed_forward_flops(d: Dimensions, length: int) -> float:
    h, i = d.hidden_dim, d.intermediate_dim
    inner = 2 * h * i + (_GELU + 1) * i
    return length * (inner + 2 * h * i + h + (_DROPOUT + 1 + _LAYER_NORM) * h)


def _paper_encoder_flops(layers: Architecture, d: Dimensions, length: int) -> float:
    e, h = d.embedding_dim, d.hidden_dim
    embeddings = 2 * e * d.vocabulary_size + 2 * e * (length + 2) + 2 * e
    embeddings += (_LAYER_NORM + _DROPOUT) * e
    if e != h:
        embeddings += 2 * e * h + h
    return length * embeddings + sum(_cost(a).paper_flops(d, length) for a in layers)


def _paper_masked_lm_head_flops(d: Dimensions, length: int) -> float:
    e, v = d.embedding_dim, d.vocabulary_size
    hidden = 2 * d.hidden_dim * e + e + (_GELU + _LAYER_NORM) * e
    return _PREDICTED_FRACTION * length * (hidden + 2 * e * v + (_SOFTMAX + 2) * v)


def _paper_discriminator_head_flops(d: Dimensions, length: int) -> float:
    h = d.hidden_dim
    return length * (2 * h * h + (_GELU + 1) * h + 2 * h)


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
