"""A path of the supernet in pieces, so that paths that begin alike share the work."""

from typing import Any, NamedTuple

import tensorflow as tf

from lvbert_tf.models.objectives import masked_weights
from lvbert_tf.models.pretraining import Batch
from lvbert_tf.models.routing.slots import Slots
from lvbert_tf.models.supernet import LVBertSupernet


class MaskedLMRows(NamedTuple):
    """The sums of `MaskedLMSums` over each example alone, float32 (B,).

    Attributes:
        loss: cross-entropy in nats at the positions that show [MASK].
        correct: how many of those are predicted right.
        weight: how many there are.
        loss_all: cross-entropy at all predicted positions.
        correct_all: how many of those are predicted right.
        weight_all: how many there are.
    """

    loss: Any
    correct: Any
    weight: Any
    loss_all: Any
    correct_all: Any
    weight_all: Any


class PathSteps:
    """The forward pass of `LVBertSupernet.test_step`, one layer at a time.

    `finish` of `step` of ... of `step` of `begin` computes what the whole path does,
    without dropout. All of it works in a `tf.function` and on a replica.

    Args:
        supernet: the model.
    """

    def __init__(self, supernet: LVBertSupernet) -> None:
        self._supernet = supernet

    def begin(self, batch: Batch) -> Any:
        """Returns the hidden states (B, T, H) below the first layer."""
        net = self._supernet
        embedded = net.embeddings(
            batch["token_ids"], batch["segment_ids"], training=False
        )
        return net.encoder.enter(embedded)

    def weights(self) -> list[list[Slots]]:
        """Returns this replica's weights, by position and letter."""
        encoder = self._supernet.encoder
        return [
            [encoder.layer_weights(i, j) for j in range(len(position))]
            for i, position in enumerate(encoder.positions)
        ]

    def step(self, letter: int, hidden: Any, padding_mask: Any, weights: Slots) -> Any:
        """Returns the hidden states (B, T, H) above one layer.

        Args:
            letter: index into the supernet's letters.
            hidden: (B, T, H), the states below.
            padding_mask: int32 (B, T).
            weights: of the layer, out of `weights()`.
        """
        return self._supernet.encoder.step(letter, hidden, padding_mask, weights)

    def finish(self, hidden: Any, batch: Batch) -> MaskedLMRows:
        """Compares the predictions from the last hidden states with the tokens."""
        net = self._supernet
        logits = net.masked_lm_head(
            hidden,
            batch["mask_positions"],
            net.token_embedding.embeddings,
            training=False,
        )
        return masked_lm_rows(logits, batch)

    def whole(self, batch: Batch) -> MaskedLMRows:
        """Does the same along the batch's `route`, as one piece."""
        logits = self._supernet(batch, training=False)
        return masked_lm_rows(logits, batch)


def masked_lm_rows(logits: Any, batch: Batch) -> MaskedLMRows:
    """Compares predictions with the original tokens, example by example.

    Args:
        logits: (B, P, V) of any float dtype; the loss is computed in float32.
        batch: see `lvbert_tf.models.pretraining`.

    Returns:
        The sums over P.
    """
    mask_ids, weights = batch["mask_ids"], batch["mask_weights"]
    masked = masked_weights(batch)
    logits = tf.cast(logits, tf.float32)
    predictions = tf.argmax(logits, axis=-1, output_type=mask_ids.dtype)
    hits = tf.cast(tf.equal(predictions, mask_ids), tf.float32)
    # TensorFlow's cross-entropy computes its gradient too, which nobody wants here.
    peak = tf.gather(logits, predictions, batch_dims=2)
    own = tf.gather(logits, mask_ids, batch_dims=2)
    total = tf.reduce_sum(tf.exp(logits - peak[..., tf.newaxis]), axis=-1)
    losses = tf.math.log(total) + peak - own
    return MaskedLMRows(
        tf.reduce_sum(losses * masked, axis=-1),
        tf.reduce_sum(hits * masked, axis=-1),
        tf.reduce_sum(masked, axis=-1),
        tf.reduce_sum(losses * weights, axis=-1),
        tf.reduce_sum(hits * weights, axis=-1),
        tf.reduce_sum(weights, axis=-1),
    )
