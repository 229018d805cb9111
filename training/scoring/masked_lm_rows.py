"""What masked predictions are worth, example by example."""

from typing import Any, NamedTuple

import tensorflow as tf

from lvbert_tf.models.objectives import masked_weights
from lvbert_tf.models.pretraining import Batch


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
