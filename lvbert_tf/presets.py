"""The paper's architectures and model sizes, as data; no TensorFlow.

Importing this module gives the architectures their names, so that
`Architecture.parse("lv_bert")` understands them.

References:
    LV-BERT (Yu et al., 2021): architectures of Tables 1 and 7 and of section 4.4,
    sizes of Table 5, fine-tuning rates of Table 6.
"""

from dataclasses import dataclass
from typing import NamedTuple

from lvbert_tf.architecture import register_architecture

PAPER_ARCHITECTURES: dict[str, str] = {
    "bert_small": "sfsfsfsfsfsfsfsfsfsfsfsf",
    "electra_small": "sfsfsfsfsfsfsfsfsfsfsfsf",
    "dynamic_conv_small": "cfcfcfcfcfcfcfcfcfcfcfcf",
    "sandwich_small": "ssssssfsfsfsfsfsfsffffff",
    "sa_ff_random": "sssffsfffssfffssssffffss",
    "sa_ff_random_search": "sfssffsfsffsfffssffssffs",
    "sa_ff_evolution": "sfsffsffsffsfsffsffsfsff",
    "dc_ff_random": "fccffccfffcffcccffcffccc",
    "dc_ff_random_search": "ffcffcfffccffccccfccfccf",
    "dc_ff_evolution": "ccffffffffffcccccccfcccf",
    "dc_sa_random": "csscssccscccccsssscccsss",
    "dc_sa_random_search": "cscscscscccscccscscsscsc",
    "dc_sa_evolution": "cscccsscsccsccsccsccsccs",
    "all_random": "ssccccsscsscfffscscscffs",
    "all_random_search": "sscfcsfcffsfcsfcffccssfs",
    "lv_bert_small": "ccsffscffsccsfcfscfcssfs",
}
"""Table 7, every row: the 16 architectures of the paper's experiments."""

FAMILY_ARCHITECTURES: dict[str, str] = {
    "bert": PAPER_ARCHITECTURES["bert_small"],
    "electra": PAPER_ARCHITECTURES["electra_small"],
    "dynamic_conv": PAPER_ARCHITECTURES["dynamic_conv_small"],
    "sandwich": PAPER_ARCHITECTURES["sandwich_small"],
    "lv_bert": PAPER_ARCHITECTURES["lv_bert_small"],
}
"""Table 2: the families that the paper trains in all three sizes."""

HAND_MADE_ARCHITECTURES: dict[str, str] = {
    # The figures are the gains over ELECTRA-small on the GLUE development set.
    "electra_bottom_conv": "cc" + "sf" * 11,  # +0.3
    "electra_top_attention": "sf" * 11 + "ss",  # +0.5
    "electra_conv_to_attention": "ccsfccsf" + "sf" * 4 + "ssfsssfs",  # +0.7
}
"""Section 4.4: ELECTRA's order with some layers replaced by hand."""

for _table in (PAPER_ARCHITECTURES, FAMILY_ARCHITECTURES, HAND_MADE_ARCHITECTURES):
    for _name, _letters in _table.items():
        register_architecture(_name, _letters)
del _table, _name, _letters


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A model size of the paper: dimensions and how it was trained.

    Attributes:
        embedding_dim: width of the word, position and segment embeddings.
        hidden_dim: width of the layers, H.
        intermediate_dim: inner width of the feed-forward layers.
        num_heads: heads of attention and dynamic convolution, N.
        generator_fraction: width of ELECTRA's generator as a fraction of H.
        learning_rate: peak learning rate of pretraining.
        batch_size: sequences per pretraining step.
        finetuning_learning_rate: peak learning rate on GLUE.
        squad_learning_rate: peak learning rate on SQuAD.
        kernel_size: taps of the dynamic convolution, K.
        sequence_length: tokens per pretraining sequence.
        training_steps: steps of pretraining.
        warmup_steps: steps of linear warm-up in pretraining.
    """

    embedding_dim: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    generator_fraction: float
    learning_rate: float
    batch_size: int
    finetuning_learning_rate: float
    squad_learning_rate: float
    kernel_size: int = 9
    sequence_length: int = 128
    training_steps: int = 1_000_000
    warmup_steps: int = 10_000


SIZES: dict[str, ModelSize] = {
    "small": ModelSize(
        embedding_dim=128,
        hidden_dim=256,
        intermediate_dim=1024,
        num_heads=4,
        generator_fraction=1 / 4,
        learning_rate=5e-4,
        batch_size=128,
        finetuning_learning_rate=3e-4,
        squad_learning_rate=3e-4,
    ),
    "medium": ModelSize(
        embedding_dim=128,
        hidden_dim=384,
        intermediate_dim=1536,
        num_heads=6,
        generator_fraction=1 / 3,
        learning_rate=5e-4,
        batch_size=128,
        finetuning_learning_rate=3e-4,
        squad_learning_rate=3e-4,
    ),
    "base": ModelSize(
        embedding_dim=768,
        hidden_dim=768,
        intermediate_dim=3072,
        num_heads=12,
        generator_fraction=1 / 3,
        learning_rate=2e-4,
        batch_size=256,
        finetuning_learning_rate=1e-4,
        squad_learning_rate=2e-4,
    ),
}
"""Tables 5 and 6. The supernet has the small size, without a generator."""


class GeneratorSizes(NamedTuple):
    """How wide ELECTRA's generator is, by `LVBertBackbone`'s names."""

    hidden_dim: int
    intermediate_dim: int
    num_heads: int


def generator_sizes(hidden_dim: int, fraction: float) -> GeneratorSizes:
    """Returns how wide the generator of a discriminator is.

    Args:
        hidden_dim: H of the discriminator.
        fraction: the generator's share of the width, in (0, 1].

    References:
        LV-BERT (Yu et al., 2021), Table 5; a head for every 64 columns, at least one.
    """
    width = max(1, round(hidden_dim * fraction))
    return GeneratorSizes(width, 4 * width, max(1, width // 64))


def model_size(name: str) -> ModelSize:
    """Returns a size by its name.

    Args:
        name: `"small"`, `"medium"` or `"base"`.

    Raises:
        ValueError: if there is no such size.
    """
    if name not in SIZES:
        raise ValueError(
            f"`size` must be one of {', '.join(SIZES)}. Received: size={name!r}"
        )
    return SIZES[name]
