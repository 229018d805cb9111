"""Dynamic masking for the masked-language-model objectives, as stateless graph ops."""

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from lvbert_tf.vocabulary import SpecialTokens

__all__ = [
    "MaskedBatch",
    "Predictions",
    "SpecialTokens",
    "apply_predictions",
    "candidate_positions",
    "default_max_predictions",
    "mask_tokens",
    "prediction_counts",
]


class MaskedBatch(NamedTuple):
    """A masked batch; P predictions a row.

    Attributes:
        token_ids: int32 (B, T), with [MASK] at most of the predicted positions.
        mask_positions: int32 (B, P), 0 in unused slots.
        mask_ids: int32 (B, P), the original ids there, 0 in unused slots.
        mask_weights: float32 (B, P), 1 for a prediction, 0 in unused slots.
    """

    token_ids: tf.Tensor
    mask_positions: tf.Tensor
    mask_ids: tf.Tensor
    mask_weights: tf.Tensor


@dataclass(frozen=True)
class Predictions:
    """What the random draws decided.

    Attributes:
        positions: int32 (B, P), a candidate position in each of the first `counts`.
        keep_draws: float32 (B, P), uniform in [0, 1).
        counts: int32 (B,), how many of the P slots are used.
    """

    positions: tf.Tensor
    keep_draws: tf.Tensor
    counts: tf.Tensor


def default_max_predictions(sequence_length: int, mask_probability: float) -> int:
    """Returns P, the official number of prediction slots of a sequence."""
    return max(1, int((mask_probability + 0.005) * sequence_length))


def mask_tokens(
    token_ids: tf.Tensor,
    padding_mask: tf.Tensor,
    *,
    seed: tf.Tensor,
    special: SpecialTokens,
    mask_probability: float = 0.15,
    max_predictions: int | None = None,
    keep_probability: float = 0.15,
    with_replacement: bool = False,
) -> dict[str, tf.Tensor]:
    """Chooses positions to predict and masks most of them.

    Never chooses [CLS], [SEP], [MASK] or padding. A row without any other token gets
    no predictions: all its weights are 0.

    Args:
        token_ids: int (B, T).
        padding_mask: int (B, T), 1 for real tokens.
        seed: int (2,); equal seeds give equal masks.
        special: ids of the special tokens.
        mask_probability: share of the real tokens, specials included, to predict.
        max_predictions: P, slots for predictions; by default as in the official code
            ``int((mask_probability + 0.005) * T)``, which needs a static T.
        keep_probability: share of the predicted positions that keep their token. No
            position gets a random one: replaced tokens are the generator's work.
        with_replacement: draw positions as the official code does; one may then come
            up several times, and counts as often.

    Returns:
        The fields of `MaskedBatch` as a dict.

    Raises:
        ValueError: for a probability outside [0, 1] or no room for predictions.
    """
    for name, value in (
        ("mask_probability", mask_probability),
        ("keep_probability", keep_probability),
    ):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"`{name}` must be in [0, 1]. Received: {name}={value}.")
    if max_predictions is None:
        if token_ids.shape[1] is None:
            raise ValueError(
                "`max_predictions` must be given where the sequence length is not "
                f"static. Received: token_ids of shape {token_ids.shape}."
            )
        max_predictions = default_max_predictions(token_ids.shape[1], mask_probability)
    if max_predictions < 1:
        raise ValueError(
            "`max_predictions` must be at least 1. "
            f"Received: max_predictions={max_predictions}."
        )
    token_ids = tf.cast(token_ids, tf.int32)
    candidates = candidate_positions(token_ids, padding_mask, special)
    counts = prediction_counts(padding_mask, mask_probability, max_predictions)
    if with_replacement:
        predictions = _draw_with_replacement(candidates, counts, max_predictions, seed)
    else:
        predictions = _draw_distinct(candidates, counts, max_predictions, seed)
    return apply_predictions(
        token_ids,
        predictions,
        mask_token_id=special.mask,
        keep_probability=keep_probability,
    )._asdict()


def candidate_positions(
    token_ids: tf.Tensor, padding_mask: tf.Tensor, special: SpecialTokens
) -> tf.Tensor:
    """Returns bool (B, T): real tokens that are not [CLS], [SEP] or [MASK]."""
    return (
        tf.cast(padding_mask, tf.bool)
        & (token_ids != special.cls)
        & (token_ids != special.sep)
        & (token_ids != special.mask)
        # Padding that the mask calls real: it must not be predicted either.
        & (token_ids != special.pad)
    )


def prediction_counts(
    padding_mask: tf.Tensor, mask_probability: float, max_predictions: int
) -> tf.Tensor:
    """Returns int32 (B,): ``max(1, min(P, round(p * real tokens)))``."""
    real = tf.reduce_sum(tf.cast(padding_mask, tf.float32), axis=1)
    wanted = tf.cast(tf.round(real * mask_probability), tf.int32)
    return tf.maximum(1, tf.minimum(max_predictions, wanted))


def apply_predictions(
    token_ids: tf.Tensor,
    predictions: Predictions,
    *,
    mask_token_id: int,
    keep_probability: float,
) -> MaskedBatch:
    """Masks a batch as the draws decided; nothing here is random.

    Args:
        token_ids: int32 (B, T), the original ids.
        predictions: the draws, in (B, P).
        mask_token_id: id of [MASK].
        keep_probability: positions whose draw is below ``1 - keep_probability`` become
            [MASK], the others keep their token.
    """
    slots = predictions.positions.shape[1]
    used = tf.sequence_mask(predictions.counts, slots)  # (B, P)
    positions = tf.where(used, predictions.positions, 0)
    ids = tf.where(used, tf.gather(token_ids, positions, batch_dims=1), 0)
    masked = used & (predictions.keep_draws < 1.0 - keep_probability)
    # Position 0 is [CLS], never a candidate: slots that change nothing point at it,
    # and it is put back afterwards.
    length = tf.shape(token_ids)[1]
    hit = tf.reduce_any(
        tf.one_hot(
            tf.where(masked, positions, 0), length, on_value=True, off_value=False
        ),
        axis=1,
    )  # (B, T)
    hit &= tf.range(length) > 0
    return MaskedBatch(
        token_ids=tf.where(hit, mask_token_id, token_ids),
        mask_positions=positions,
        mask_ids=ids,
        mask_weights=tf.cast(used, tf.float32),
    )


def _draw_distinct(
    candidates: tf.Tensor, counts: tf.Tensor, slots: int, seed: tf.Tensor
) -> Predictions:
    """Draws different positions, every set of candidates with equal probability."""
    order_seed, keep_seed = _split(seed)
    scores = tf.random.stateless_uniform(tf.shape(candidates), order_seed)
    scores = tf.where(candidates, scores, -1.0)
    # More slots than tokens would be an error of top_k.
    drawn = tf.minimum(slots, tf.shape(candidates)[1])
    positions = tf.math.top_k(scores, drawn).indices
    positions = tf.pad(positions, [[0, 0], [0, slots - drawn]])
    positions = tf.ensure_shape(positions, (candidates.shape[0], slots))
    available = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1)
    return Predictions(
        positions=positions,
        keep_draws=tf.random.stateless_uniform(tf.shape(positions), keep_seed),
        counts=tf.minimum(counts, available),
    )


def _draw_with_replacement(
    candidates: tf.Tensor, counts: tf.Tensor, slots: int, seed: tf.Tensor
) -> Predictions:
    """Draws each position on its own, uniformly from the candidates."""
    position_seed, keep_seed = _split(seed)
    available = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1)  # (B,)
    shape = (tf.shape(candidates)[0], slots)
    draws = tf.random.stateless_uniform(shape, position_seed)
    rank = tf.cast(draws * tf.cast(available, tf.float32)[:, tf.newaxis], tf.int32)
    # A draw just below 1 rounds up to `available` in float32.
    rank = tf.clip_by_value(rank, 0, tf.maximum(available - 1, 0)[:, tf.newaxis])
    # Candidates first, in their order: the rank-th entry is the rank-th candidate.
    by_rank = tf.argsort(tf.cast(~candidates, tf.int32), axis=1, stable=True)
    positions = tf.gather(by_rank, rank, batch_dims=1)
    return Predictions(
        positions=tf.ensure_shape(positions, (candidates.shape[0], slots)),
        keep_draws=tf.random.stateless_uniform(tf.shape(positions), keep_seed),
        counts=tf.where(available > 0, counts, 0),
    )


def _split(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns two independent seeds."""
    seeds = tf.random.split(tf.cast(seed, tf.int64), 2)
    return seeds[0], seeds[1]
