"""Token, position and segment embeddings, of a width of their own."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.layers.dropout import Dropout
from lvbert_tf.layers.ids import check_ids
from lvbert_tf.layers.initializers import truncated_normal

LAYER_NORM_EPSILON = 1e-12
"""Of every LayerNorm, as in the official implementation."""


def layer_norm(dtype: Any, name: str = "layer_norm") -> keras.layers.LayerNormalization:
    """Returns the layer normalisation that every part of the model uses."""
    return keras.layers.LayerNormalization(
        epsilon=LAYER_NORM_EPSILON, dtype=dtype, name=name
    )


@keras.saving.register_keras_serializable(package="lvbert_tf")
class TableLookup(keras.layers.Embedding):
    """A table whose gradient is dense: one row a token, however often it occurs.

    A sparse gradient names a row once for each occurrence, and optimizers that are not
    linear (Adam, RMSprop, Adagrad) would square the parts in place of their sum.
    """

    def call(self, inputs: Any) -> Any:
        """Looks up int32 ids of any shape: their shape with E appended."""
        # The gradient of a reshape is dense and costs nothing forward.
        table = ops.reshape(self.embeddings, (self.input_dim, self.output_dim))
        return ops.cast(ops.take(table, inputs, axis=0), self.compute_dtype)

    def quantize(
        self, mode: Any = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Quantises as the stock layer does, which refuses its subclasses."""
        super().quantize(mode, type_check=False, config=config)


_OCCURRENCES: ContextVar[bool] = ContextVar("gradient_of_occurrences", default=False)


@contextlib.contextmanager
def gradient_of_occurrences() -> Iterator[None]:
    """Gives the token table's gradient, in the block, a row for each occurrence.

    It is a `tf.IndexedSlices`, as in the official fine-tuning, which
    `AdamW(clip_occurrences=True)` needs to see. Its sum is the dense gradient.
    """
    token = _OCCURRENCES.set(True)
    try:
        yield
    finally:
        _OCCURRENCES.reset(token)


@keras.saving.register_keras_serializable(package="lvbert_tf")
class TokenEmbedding(TableLookup):
    """The token table, which stays in floating point when a model is quantised.

    The masked-LM head multiplies with the same table: its values must be numbers, not
    the integers of a quantised layer.
    """

    def call(self, inputs: Any) -> Any:
        """Looks up int32 ids of any shape: their shape with E appended."""
        if _OCCURRENCES.get():
            rows = ops.take(self.embeddings, inputs, axis=0)
            return ops.cast(rows, self.compute_dtype)
        return super().call(inputs)

    def quantize(
        self, mode: Any = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Refuses, which tells Keras to leave this layer as it is."""
        raise NotImplementedError("`quantize` leaves the shared token table as it is.")


@keras.saving.register_keras_serializable(package="lvbert_tf")
class Embeddings(keras.layers.Layer):
    """Sum of three tables, then LayerNorm and dropout.

    Args:
        vocabulary_size: rows V of the token table.
        embedding_dim: width E of the tables.
        max_sequence_length: rows of the position table.
        num_segments: rows of the segment table.
        dropout: dropout rate of the output.

    Call arguments:
        token_ids: int32 (B, T).
        segment_ids: int32 (B, T).
        training: whether to drop.

    Returns:
        (B, T, E).

    Raises:
        ValueError: if ids are no integers, or T is known and larger than
            `max_sequence_length`. Where T is only known at run time the position
            lookup fails instead.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        vocabulary_size, embedding_dim, max_sequence_length, num_segments = (
            positive_integers(
                vocabulary_size=vocabulary_size,
                embedding_dim=embedding_dim,
                max_sequence_length=max_sequence_length,
                num_segments=num_segments,
            )
        )
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout_rate = dropout
        self.token_embedding = self._table(
            vocabulary_size, "token_embedding", TokenEmbedding
        )
        self.position_embedding = self._table(max_sequence_length, "position_embedding")
        self.segment_embedding = self._table(num_segments, "segment_embedding")
        self.layer_norm = layer_norm(self.dtype_policy)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def _table(
        self,
        rows: int,
        name: str,
        layer_class: type[TableLookup] = TableLookup,
    ) -> TableLookup:
        return layer_class(
            rows,
            self.embedding_dim,
            embeddings_initializer=truncated_normal(),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, token_ids_shape: Any = None, segment_ids_shape: Any = None) -> None:
        """Creates the tables."""
        for table in (
            self.token_embedding,
            self.position_embedding,
            self.segment_embedding,
        ):
            table.build(None)
        self.layer_norm.build((None, None, self.embedding_dim))
        self.dropout.build(None)
        self.built = True

    def normalized(self, token_ids: Any, segment_ids: Any) -> Any:
        """Returns the sum of the tables after LayerNorm, before dropout: (B, T, E)."""
        check_ids("token_ids", token_ids)
        check_ids("segment_ids", segment_ids)
        length = token_ids.shape[1]
        if isinstance(length, int) and length > self.max_sequence_length:
            raise ValueError(
                "`token_ids` are longer than `max_sequence_length`. Received: "
                f"{length} tokens, max_sequence_length={self.max_sequence_length}"
            )
        positions = self.position_embedding(ops.arange(ops.shape(token_ids)[1]))
        return self.layer_norm(
            self.token_embedding(token_ids)
            + positions[None]
            + self.segment_embedding(segment_ids)
        )

    def call(
        self, token_ids: Any, segment_ids: Any, training: bool | None = None
    ) -> Any:
        """Embeds int32 (B, T) twice to (B, T, E)."""
        return self.dropout(self.normalized(token_ids, segment_ids), training=training)

    def compute_output_shape(
        self, token_ids_shape: Any, segment_ids_shape: Any = None
    ) -> Any:
        """Returns (B, T, E)."""
        return (*token_ids_shape, self.embedding_dim)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "dropout": self.dropout_rate,
        }
