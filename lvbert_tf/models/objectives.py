"""Sums that losses and metrics are made of; their denominators are global sums.

Every function returns sums over this replica's part of the batch, so that a loss is
`sum / denominator summed over replicas`, the mean over the whole batch.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf


class MaskedLMSums(NamedTuple):
    """Sums over the predicted positions of a batch, float scalars.

    Some of the predicted positions show their own token instead of [MASK]. What is
    right there is copied, so the first three sums leave them out; a model is trained
    on all, which the last three are over.

    Attributes:
        loss: cross-entropy in nats at the positions that show [MASK], times weight.
        correct: weight of those predicted right.
        weight: weight of them, which is their number.
        loss_all: cross-entropy at all predicted positions, times weight.
        correct_all: weight of those predicted right.
        weight_all: weight of them all.
    """

    loss: Any
    correct: Any
    weight: Any
    loss_all: Any
    correct_all: Any
    weight_all: Any


def masked_weights(batch: Mapping[str, Any]) -> Any:
    """Returns `mask_weights`, float32 (B, P), with 0 where the token was kept.

    A predicted position shows either [MASK], which is never predicted itself, or its
    own token.

    Args:
        batch: see `lvbert_tf.models.pretraining`.
    """
    shown = tf.gather(batch["token_ids"], batch["mask_positions"], batch_dims=1)
    weights = batch["mask_weights"]
    masked = tf.not_equal(shown, tf.cast(batch["mask_ids"], shown.dtype))
    return weights * tf.cast(masked, weights.dtype)


def masked_lm_sums(logits: Any, batch: Mapping[str, Any]) -> MaskedLMSums:
    """Compares predictions with the original tokens.

    Args:
        logits: (B, P, V) of any float dtype; the loss is computed in float32 or wider.
        batch: see `lvbert_tf.models.pretraining`.

    Returns:
        The sums over B and P.
    """
    mask_ids = batch["mask_ids"]
    if logits.dtype != tf.float64:
        logits = tf.cast(logits, tf.float32)
    weights = tf.cast(batch["mask_weights"], logits.dtype)
    masked = tf.cast(masked_weights(batch), logits.dtype)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(mask_ids, logits)
    predictions = tf.argmax(logits, axis=-1, output_type=mask_ids.dtype)
    hits = tf.cast(tf.equal(predictions, mask_ids), weights.dtype)
    return MaskedLMSums(
        tf.reduce_sum(losses * masked),
        tf.reduce_sum(hits * masked),
        tf.reduce_sum(masked),
        tf.reduce_sum(losses * weights),
        tf.reduce_sum(hits * weights),
        tf.reduce_sum(weights),
    )


def sample_tokens(logits: Any, uniform: Any) -> Any:
    """Draws one token for each position from the generator's distribution.

    By inverting the cumulative distribution: one uniform number a position instead of
    one Gumbel number for every token of the vocabulary, and the same distribution.

    Args:
        logits: (B, P, V).
        uniform: float32 (B, P) in [0, 1).

    Returns:
        int32 (B, P). No gradient flows back through it.
    """
    logits = tf.stop_gradient(tf.cast(logits, tf.float32))
    cumulative = tf.cumsum(tf.nn.softmax(logits), axis=-1)
    vocabulary_size = tf.shape(logits)[-1]
    # Rounding leaves the last sum a little off 1; scaling makes it the upper end.
    targets = uniform[..., None] * cumulative[..., -1:]
    sampled = tf.reduce_sum(tf.cast(cumulative <= targets, tf.int32), axis=-1)
    return tf.minimum(sampled, vocabulary_size - 1)


def gumbel_sample_tokens(logits: Any, uniform: Any, disallowed: Any = None) -> Any:
    """Draws tokens as the official code does: argmax of logits plus Gumbel noise.

    Args:
        logits: (B, P, V).
        uniform: float32 (B, P, V) in [0, 1).
        disallowed: int32 (B, P) of tokens that must not come out; or None.

    Returns:
        int32 (B, P).
    """
    logits = tf.cast(logits, tf.float32)
    if disallowed is not None:
        logits -= 1000.0 * tf.one_hot(disallowed, tf.shape(logits)[-1])
    noise = -tf.math.log(-tf.math.log(uniform + 1e-9) + 1e-9)
    return tf.argmax(tf.nn.softmax(logits + noise), axis=-1, output_type=tf.int32)


def scatter_tokens(
    token_ids: Any, positions: Any, replacements: Any, weights: Any
) -> Any:
    """Puts tokens at positions, ignoring slots of weight 0.

    A position named twice gets the floor of the mean of its tokens, and position 0
    ([CLS]) is never changed: the official rules, which drawing without replacement
    never meets.

    Args:
        token_ids: int32 (B, T).
        positions: int32 (B, P).
        replacements: int32 (B, P).
        weights: (B, P), 0 for unused slots.

    Returns:
        int32 (B, T).
    """
    used = tf.cast((weights > 0) & (positions > 0), tf.int32)
    batch, slots = tf.unstack(tf.shape(positions))
    rows = tf.repeat(tf.range(batch), slots)
    indices = tf.stack([rows, tf.reshape(positions, [-1])], axis=-1)
    shape = tf.shape(token_ids)
    counts = tf.scatter_nd(indices, tf.reshape(used, [-1]), shape)
    sums = tf.scatter_nd(indices, tf.reshape(used * replacements, [-1]), shape)
    return tf.where(counts > 0, sums // tf.maximum(counts, 1), token_ids)


def histogram(probabilities: Any, labels: Any, weights: Any, bins: int) -> Any:
    """Counts probabilities in equal bins, separately by label.

    Args:
        probabilities: float32 of any shape, in [0, 1].
        labels: int32 like it, 0 or 1.
        weights: float32 like it; 0 leaves an entry out.
        bins: number of bins.

    Returns:
        float32 (2, bins): the weight of label 0 and 1 in each bin. The area under the
        ROC curve follows from it, and sums over batches and replicas stay exact.
    """
    index = tf.cast(probabilities * bins, tf.int32)
    index = tf.clip_by_value(index, 0, bins - 1) + bins * tf.cast(labels, tf.int32)
    counts = tf.math.unsorted_segment_sum(
        tf.reshape(tf.cast(weights, tf.float32), [-1]),
        tf.reshape(index, [-1]),
        2 * bins,
    )
    return tf.reshape(counts, (2, bins))


def step_seed(seed: int, step: Any, replica: Any = 0) -> Any:
    """Returns the int32 (2,) seed of everything random in one step.

    Args:
        seed: the run's seed.
        step: int scalar tensor.
        replica: int or int scalar tensor, for draws that must differ by replica.
    """
    # An odd multiplier keeps replicas of different seeds apart as well.
    first = tf.bitwise.bitwise_xor(
        tf.constant(_as_int32(seed)),
        tf.cast(replica, tf.int32) * tf.constant(_as_int32(0x9E3779B1)),
    )
    return tf.stack([first, tf.cast(step, tf.int32)])


def _as_int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
