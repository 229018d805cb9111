"""What the training steps of supernet, masked LM and ELECTRA have in common.

A batch is one dict: `token_ids` (already masked), `segment_ids`, `padding_mask` int32
(B, T); `mask_positions`, `mask_ids` int32 and `mask_weights` float32 (B, P), weight 0
for unused slots; `step` int64 (B,), every element the step that the batch belongs to.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from lvbert_tf.distribution import replica_id, sum_over_replicas
from lvbert_tf.models.objectives import MaskedLMSums, step_seed

ENCODER_INPUTS = ("token_ids", "segment_ids", "padding_mask")
DENOMINATOR_EPSILON = 1e-6
"""Added to every denominator, as in the official code: nothing masked gives loss 0."""

MASKED_LM_TOTALS = (
    *("loss_sum", "correct", "masked_tokens"),
    *("loss_sum_all", "correct_all", "predicted_tokens"),
)
"""Names of the sums of a `MaskedLMSums`: at [MASK], then over all positions."""

Batch = Mapping[str, Any]


def is_pretraining_batch(data: Any) -> bool:
    """Returns whether `data` is a batch as described above."""
    return isinstance(data, Mapping) and "mask_weights" in data


def encoder_inputs(batch: Batch) -> dict[str, Any]:
    """Returns what a backbone takes of the batch."""
    return {name: batch[name] for name in ENCODER_INPUTS}


def batch_seed(run_seed: int, batch: Batch) -> Any:
    """Returns the seed (int32 (2,)) of dropout in this step on this replica."""
    return step_seed(run_seed, batch["step"][0], replica_id())


def global_denominator(weights: Any) -> Any:
    """Returns the sum of `weights` over all replicas, never quite zero."""
    return sum_over_replicas([tf.reduce_sum(weights)])[0] + DENOMINATOR_EPSILON


def masked_lm_means(sums: MaskedLMSums) -> dict[str, Any]:
    """Returns loss and accuracy of the whole batch, and of how many positions.

    Returns:
        `loss`, `accuracy` and `masked_tokens` of the positions that show [MASK];
        `loss_all`, which training lowers, `accuracy_all` and `predicted_tokens` of all
        predicted ones.
    """
    found = MaskedLMSums(*sum_over_replicas(list(sums)))
    masked = found.weight + DENOMINATOR_EPSILON
    predicted = found.weight_all + DENOMINATOR_EPSILON
    return {
        "loss": found.loss / masked,
        "accuracy": found.correct / masked,
        "masked_tokens": found.weight,
        "loss_all": found.loss_all / predicted,
        "accuracy_all": found.correct_all / predicted,
        "predicted_tokens": found.weight_all,
    }


def masked_lm_totals(sums: MaskedLMSums) -> dict[str, Any]:
    """Returns the sums over all replicas, so that means over many batches are exact."""
    return dict(zip(MASKED_LM_TOTALS, sum_over_replicas(list(sums)), strict=True))


def apply_gradients(model: Any, tape: tf.GradientTape, loss: Any) -> dict[str, Any]:
    """Updates every trainable variable of `model` that `loss` depends on.

    Args:
        model: compiled with `lvbert_tf.optimization.AdamW`.
        tape: recorded `loss`.
        loss: this replica's sum divided by the global denominator.

    Returns:
        The gradient's global norm before clipping, and the learning rate.
    """
    optimizer = model.optimizer
    variables = model.trainable_variables
    optimizer.build(variables)
    gradients = tape.gradient(loss, [v.value for v in variables])
    pairs = [(v, g) for v, g in zip(variables, gradients, strict=True) if g is not None]
    summed, scale, norm = optimizer.sum_and_clip([g for _, g in pairs])
    rate = optimizer.current_learning_rate()
    optimizer.update([v for v, _ in pairs], summed, scale, rate)
    optimizer.finish_step()
    return {"gradient_norm": norm, "learning_rate": rate}
