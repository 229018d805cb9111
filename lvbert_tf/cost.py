"""What an architecture costs: parameters and FLOPs, in closed form; no TensorFlow.

Shape letters: T tokens, E embedding width, H hidden width, I intermediate width, N
heads, K taps of the convolution, V vocabulary. Two figures exist twice, because the
paper's differ from what is really built: `backbone_params` and `paper_params`,
`model_flops` and `paper_flops`. See docs/architecture-strings.md.
"""

import dataclasses
from typing import Any

from lvbert_tf.architecture import Architecture, ArchitectureSpec
from lvbert_tf.architecture import letters as known_letters
from lvbert_tf.layer_cost import (
    DROPOUT_FLOPS,
    GELU_FLOPS,
    LAYER_NORM_FLOPS,
    SOFTMAX_FLOPS,
    Dimensions,
    layer_cost,
    layer_flops,
    layer_params,
    register_cost,
)
from lvbert_tf.presets import SIZES, ModelSize, generator_sizes, model_size

__all__ = [
    "Dimensions",
    "backbone_params",
    "describe",
    "embedding_projection_params",
    "generator_dimensions",
    "layer_flops",
    "layer_params",
    "model_flops",
    "paper_flops",
    "paper_params",
    "register_cost",
    "space_size",
    "total_params",
    "word_embedding_params",
]

_PREDICTED_FRACTION = 5 / 32  # of all tokens, by ELECTRA's counting rule


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
    layers = (layer_cost(a).paper_parameters for a in Architecture.parse(architecture))
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
    sizes = generator_sizes(discriminator.hidden_dim, fraction)
    return dataclasses.replace(discriminator, **sizes._asdict())


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


def _check_length(sequence_length: int) -> None:
    if sequence_length < 1:
        raise ValueError(
            "`sequence_length` must be at least 1. "
            f"Received: sequence_length={sequence_length}"
        )


def _paper_encoder_flops(layers: Architecture, d: Dimensions, length: int) -> float:
    e, h = d.embedding_dim, d.hidden_dim
    embeddings = 2 * e * d.vocabulary_size + 2 * e * (length + 2) + 2 * e
    embeddings += (LAYER_NORM_FLOPS + DROPOUT_FLOPS) * e
    if e != h:
        embeddings += 2 * e * h + h
    layers_flops = sum(layer_cost(a).paper_flops(d, length) for a in layers)
    return length * embeddings + layers_flops


def _paper_masked_lm_head_flops(d: Dimensions, length: int) -> float:
    e, v = d.embedding_dim, d.vocabulary_size
    hidden = 2 * d.hidden_dim * e + e + (GELU_FLOPS + LAYER_NORM_FLOPS) * e
    return _PREDICTED_FRACTION * length * (hidden + 2 * e * v + (SOFTMAX_FLOPS + 2) * v)


def _paper_discriminator_head_flops(d: Dimensions, length: int) -> float:
    h = d.hidden_dim
    return length * (2 * h * h + (GELU_FLOPS + 1) * h + 2 * h)
