"""The head that finds answers: a span's start, its end given the start, or none."""

from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.layers.feed_forward import gelu
from lvbert_tf.layers.precision import at_least_float32

NO_CANDIDATE = 1000.0
"""What the official code takes from the logits of tokens that can't be in an answer."""
NO_BEAM = -1e4
"""Score of a beam that there is no token for, in texts shorter than the beam."""


@keras.saving.register_keras_serializable(package="lvbert_tf")
class SpanHead(keras.layers.Layer):
    """Scores starts, then ends for each of the best starts, and "no answer".

    The logit of an end looks at the hidden states of the end and of its start through
    a hidden layer: `gelu([h_start, h_end] W + b) w`. Training gives it the true start;
    otherwise the `beam_size` most probable starts. "No answer" is judged from the first
    token's state and the expected state of the start.

    Args:
        beam_size: starts K to consider.
        intermediate_dim: width of the two hidden layers.

    Call arguments:
        inputs: hidden states (B, T, H).
        segment_ids: (B, T), 1 for the context, which holds the answers, and its [SEP].
        padding_mask: (B, T), 1 for real tokens.
        start_positions: int32 (B,), the true starts; None for a beam of starts.

    Returns:
        dict of float32 tensors (float64 where the layer is): `start_logits` (B, T) and
        `unanswerable_logit` (B,); with `start_positions` also `end_logits` (B, T);
        without, `start_index` int32 (B, K), `start_log_probs` (B, K) and
        `end_log_probs` (B, K, T).

    Differences from the official code: none in value; the hidden layer over K times T
    pairs is the sum of two products, one for ends and one for starts, so that its cost
    does not grow with K.
    """

    def __init__(
        self, beam_size: int = 20, intermediate_dim: int = 512, **kwargs: Any
    ) -> None:
        (beam_size,) = positive_integers(beam_size=beam_size)
        (intermediate_dim,) = positive_integers(intermediate_dim=intermediate_dim)
        super().__init__(**kwargs)
        self.beam_size = beam_size
        self.intermediate_dim = intermediate_dim
        self.start = self._dense("start", 1)
        self.end = self._dense("end", 1)
        self.unanswerable_hidden = self._dense("unanswerable_hidden", intermediate_dim)
        self.unanswerable = self._dense("unanswerable", 1)

    def _dense(self, name: str, units: int) -> keras.layers.Dense:
        # Task heads of the official code start from Glorot's uniform distribution.
        return keras.layers.Dense(units, dtype=self.dtype_policy, name=name)

    def build(
        self,
        inputs_shape: tuple[int | None, ...],
        segment_ids_shape: Any = None,
        padding_mask_shape: Any = None,
        start_positions_shape: Any = None,
    ) -> None:
        """Creates the weights for hidden states (B, T, H)."""
        hidden = inputs_shape[-1]
        assert hidden is not None
        self.start.build(inputs_shape)
        # Not a dense layer: its halves are applied apart.
        self.end_hidden_kernel = self.add_weight(
            name="end_hidden_kernel",
            shape=(2 * hidden, self.intermediate_dim),
            initializer="glorot_uniform",
        )
        self.end_hidden_bias = self.add_weight(
            name="end_hidden_bias", shape=(self.intermediate_dim,), initializer="zeros"
        )
        self.end.build((None, self.intermediate_dim))
        self.unanswerable_hidden.build((None, 2 * hidden))
        self.unanswerable.build((None, self.intermediate_dim))
        self.built = True

    def call(
        self,
        inputs: Any,
        segment_ids: Any,
        padding_mask: Any,
        start_positions: Any = None,
        training: bool | None = None,
    ) -> dict[str, Any]:
        """Scores spans of (B, T, H)."""
        start_logits = at_least_float32(self.start(inputs)[..., 0])  # (B, T)
        dtype = start_logits.dtype
        context = ops.cast(segment_ids, dtype) * ops.cast(padding_mask, dtype)
        # The first token, of segment 0, stands for "no answer".
        first = ops.cast(ops.arange(ops.shape(context)[1]) == 0, dtype)
        excluded = NO_CANDIDATE * (1.0 - ops.maximum(context, first))  # (B, T)
        start_logits = start_logits - excluded
        outputs = {
            "start_logits": start_logits,
            "unanswerable_logit": self._unanswerable(inputs, start_logits, training),
        }
        if start_positions is not None:
            starts = ops.expand_dims(start_positions, 1)  # (B, 1)
            logits = self._end_logits(inputs, starts, excluded, training)
            return {**outputs, "end_logits": logits[:, 0]}
        index, log_probs = self._best_starts(start_logits)
        end_logits = self._end_logits(inputs, index, excluded, training)  # (B, K, T)
        return {
            **outputs,
            "start_index": index,
            "start_log_probs": log_probs,
            "end_log_probs": ops.log_softmax(end_logits, axis=-1),
        }

    def _best_starts(self, start_logits: Any) -> tuple[Any, Any]:
        """Returns the K best starts, int32 (B, K), and their log-probabilities."""
        log_probs = ops.log_softmax(start_logits, axis=-1)
        beams = ops.pad(
            log_probs, ((0, 0), (0, self.beam_size)), constant_values=NO_BEAM
        )
        values, index = ops.top_k(beams, self.beam_size)
        index = ops.where(values > NO_BEAM, ops.cast(index, "int32"), 0)
        return index, values

    def _end_logits(
        self, hidden: Any, starts: Any, excluded: Any, training: bool | None
    ) -> Any:
        """Returns logits (B, K, T) of ends, for starts (B, K)."""
        width = hidden.shape[-1]
        positions = ops.expand_dims(starts, 2)  # (B, K, 1)
        at_start = ops.take_along_axis(hidden, positions, axis=1)  # (B, K, H)
        kernel = ops.cast(self.end_hidden_kernel, hidden.dtype)
        bias = ops.cast(self.end_hidden_bias, hidden.dtype)
        at_end = ops.matmul(hidden, kernel[width:]) + bias  # (B, T, F)
        at_start = ops.matmul(at_start, kernel[:width])  # (B, K, F)
        pairs = ops.expand_dims(at_end, 1) + ops.expand_dims(at_start, 2)
        both = gelu(pairs, training)  # (B, K, T, F)
        return at_least_float32(self.end(both)[..., 0]) - excluded[:, None]

    def _unanswerable(
        self, hidden: Any, start_logits: Any, training: bool | None
    ) -> Any:
        """Returns logits (B,) of there being no answer."""
        probabilities = ops.cast(ops.softmax(start_logits, axis=-1), hidden.dtype)
        expected = ops.matmul(probabilities[:, None], hidden)[:, 0]  # (B, H)
        both = ops.concatenate([hidden[:, 0], expected], axis=-1)
        inner = gelu(self.unanswerable_hidden(both), training)
        return at_least_float32(self.unanswerable(inner)[..., 0])

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "beam_size": self.beam_size,
            "intermediate_dim": self.intermediate_dim,
        }
