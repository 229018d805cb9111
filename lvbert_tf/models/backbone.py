"""LVBertBackbone: the encoder of the paper as a KerasHub backbone."""

from typing import Any

import keras
from keras_hub.models import Backbone

from lvbert_tf.architecture import Architecture, ArchitectureSpec
from lvbert_tf.layers.arguments import (
    check_flags,
    check_known,
    check_rates,
    positive_integers,
)
from lvbert_tf.layers.embeddings import Embeddings
from lvbert_tf.layers.encoder import Encoder
from lvbert_tf.layers.ids import check_inputs
from lvbert_tf.models.exporting import Exports
from lvbert_tf.models.fresh_heads import check_is_no_supernet
from lvbert_tf.models.preset_files import CONFIG_FILE, preset_json, preset_name
from lvbert_tf.presets import model_size


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertBackbone(Exports, Backbone):
    """A BERT-like encoder whose layers are given by an architecture string.

    Args:
        vocabulary_size: number of tokens V.
        architecture: what `Architecture.parse` reads: a string of layer letters, a
            name, or a list.
        embedding_dim: width E of the embedding tables.
        hidden_dim: width H of the encoder.
        intermediate_dim: width inside feed-forward layers.
        num_heads: heads of attention and dynamic convolution; it must divide H.
        kernel_size: odd number of neighbours of dynamic convolution.
        dropout: dropout rate after the embeddings and of each layer's output.
        attention_dropout: dropout rate of attention probabilities.
        max_sequence_length: longest input, in tokens.
        num_segments: number of segments.
        mask_convolution: whether dynamic convolution ignores the padding. The
            official implementation does not (`False`): there, outputs of real tokens
            depend on how much padding follows.
        approximate_gelu: whether feed-forward layers approximate GELU by tanh, as
            KerasHub's BERT does and the published code of LV-BERT does not.
        dtype: dtype or dtype policy of computations and weights.
        **kwargs: `name` and `trainable` of the model.

    Call arguments:
        inputs: dict of int32 (B, T) tensors `token_ids`, `segment_ids` and
            `padding_mask` (1 for real tokens, 0 for padding).

    Returns:
        Hidden states (B, T, H). Classifiers use the first token's, `[:, 0]`.

    Example:
    >>> import numpy as np, lvbert_tf
    >>> backbone = lvbert_tf.LVBertBackbone(
    ...     vocabulary_size=100, architecture="csf", embedding_dim=8, hidden_dim=16,
    ...     intermediate_dim=32, num_heads=2)
    >>> ids = np.array([[2, 7, 9, 3]])
    >>> backbone({"token_ids": ids, "segment_ids": 0 * ids,
    ...           "padding_mask": 0 * ids + 1}).shape
    TensorShape([1, 4, 16])
    """

    def __init__(
        self,
        vocabulary_size: int,
        architecture: ArchitectureSpec,
        embedding_dim: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        kernel_size: int = 9,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        mask_convolution: bool = True,
        approximate_gelu: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_known(self, kwargs)
        parsed = Architecture.parse(architecture)
        (
            vocabulary_size,
            embedding_dim,
            hidden_dim,
            intermediate_dim,
            num_heads,
            kernel_size,
            max_sequence_length,
            num_segments,
        ) = positive_integers(
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            intermediate_dim=intermediate_dim,
            num_heads=num_heads,
            kernel_size=kernel_size,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
        )
        check_rates(dropout=dropout, attention_dropout=attention_dropout)
        check_flags(
            mask_convolution=mask_convolution, approximate_gelu=approximate_gelu
        )
        # === Layers ===
        self.embeddings = Embeddings(
            vocabulary_size,
            embedding_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            dropout=dropout,
            dtype=dtype,
            name="embeddings",
        )
        self.encoder = Encoder(
            parsed,
            hidden_dim,
            intermediate_dim,
            num_heads,
            kernel_size=kernel_size,
            dropout=dropout,
            attention_dropout=attention_dropout,
            mask_convolution=mask_convolution,
            approximate_gelu=approximate_gelu,
            dtype=dtype,
            name="encoder",
        )
        # === Functional model ===
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
        embedded = self.embeddings(inputs["token_ids"], inputs["segment_ids"])
        outputs = self.encoder(embedded, padding_mask=inputs["padding_mask"])
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)
        # === Config ===
        self.token_embedding = self.embeddings.token_embedding
        self.architecture = str(parsed)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.kernel_size = kernel_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.mask_convolution = mask_convolution
        self.approximate_gelu = approximate_gelu

    @classmethod
    def from_size(
        cls,
        size: str,
        architecture: ArchitectureSpec = "lv_bert",
        vocabulary_size: int = 30522,
        **overrides: Any,
    ) -> "LVBertBackbone":
        """Returns a new backbone of one of the paper's sizes, with random weights.

        Args:
            size: "small", "medium" or "base" (paper, Table 5).
            architecture: the layers.
            vocabulary_size: number of tokens.
            **overrides: any other constructor argument.

        Raises:
            ValueError: if the size is unknown.
        """
        sizes = model_size(size)
        arguments = {
            "embedding_dim": sizes.embedding_dim,
            "hidden_dim": sizes.hidden_dim,
            "intermediate_dim": sizes.intermediate_dim,
            "num_heads": sizes.num_heads,
            **overrides,
        }
        return cls(vocabulary_size, architecture, **arguments)

    @property
    def sees_padding(self) -> bool:
        """Whether hidden states of tokens depend on how much padding follows them.

        Attention ignores padding by its own mask and feed-forward never sees any;
        convolutions without a mask do see it, and so may layers of your own.
        """
        return not self.mask_convolution and bool(set(self.architecture) - {"s", "f"})

    @classmethod
    def from_preset(
        cls, preset: Any, load_weights: bool = True, **kwargs: Any
    ) -> "LVBertBackbone":
        """Returns the backbone of a preset.

        Args:
            preset: the directory, or a handle such as "hf://user/model".
            load_weights: whether to load weights or draw them anew.
            **kwargs: constructor arguments, such as `dtype` and `dropout`.

        Raises:
            ValueError: if there is no such preset, or it is a supernet's; if trained
                weights are asked to compute something else than they were trained for.
        """
        preset = preset_name(preset)
        check_is_no_supernet(preset)
        stored = (preset_json(preset, CONFIG_FILE) or {}).get("config", {})
        for name in ("mask_convolution", "approximate_gelu"):
            wanted = kwargs.get(name)
            if load_weights and wanted not in (None, stored.get(name, wanted)):
                raise ValueError(
                    f"The weights of {preset} were trained with {name}={stored[name]}: "
                    "with another value they would compute something else. Received: "
                    f"{name}={wanted}"
                )
        backbone: LVBertBackbone = super().from_preset(preset, load_weights, **kwargs)
        return backbone

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Encodes inputs, after refusing ids that no row of a table stands for."""
        check_inputs(inputs, self)
        return super().__call__(inputs, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "architecture": self.architecture,
            "embedding_dim": self.embedding_dim,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "kernel_size": self.kernel_size,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "mask_convolution": self.mask_convolution,
            "approximate_gelu": self.approximate_gelu,
        }
