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
from lvbert_tf.optimization import AdamW

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
    total = MaskedLMSums(*sum_over_replicas(list(sums)))
    masked = total.weight + DENOMINATOR_EPSILON
    predicted = total.weight_all + DENOMINATOR_EPSILON
    return {
        "loss": total.loss / masked,
        "accuracy": total.correct / masked,
        "masked_tokens": total.weight,
        "loss_all": total.loss_all / predicted,
        "accuracy_all": total.correct_all / predicted,
        "predicted_tokens": total.weight_all,
    }


def masked_lm_totals(sums: MaskedLMSums) -> dict[str, Any]:
    """Returns the sums over all replicas, so that means over many batches are exact."""
    return dict(zip(MASKED_LM_TOTALS, sum_over_replicas(list(sums)), strict=True))


def refuse_float16(model: Any, policy: Any) -> None:
    """Refuses to pretrain layers that compute in float16.

    Raises:
        ValueError: if `policy` computes in float16.
    """
    if policy.compute_dtype == "float16":
        raise ValueError(
            f"A {type(model).__name__} is not pretrained in float16: small gradients "
            "would become 0 there, and its training step scales no loss against that. "
            "Use dtype='mixed_bfloat16', which needs no scaling, or 'float32'. "
            f"Received: dtype={policy.name!r}"
        )


def pretraining_optimizer(model: Any) -> AdamW:
    """Returns the optimizer of `model`, which takes whole training steps.

    Raises:
        ValueError: if the model has none, or one of another class.
    """
    optimizer = getattr(model, "optimizer", None)
    if not isinstance(optimizer, AdamW):
        raise ValueError(
            f"A {type(model).__name__} is pretrained with "
            "`lvbert_tf.optimization.AdamW`, which sums gradients over replicas before "
            "it clips them: compile the model with it. "
            f"Received: optimizer={type(optimizer).__name__}"
        )
    return optimizer


def apply_gradients(model: Any, tape: tf.GradientTape, loss: Any) -> dict[str, Any]:
    """Updates every trainable variable of `model` that `loss` depends on.

    Args:
        model: compiled with `lvbert_tf.optimization.AdamW`.
        tape: recorded `loss`.
        loss: this replica's sum divided by the global denominator.

    Returns:
        The gradient's global norm before clipping, and the learning rate.
    """
    optimizer = pretraining_optimizer(model)
    variables = model.trainable_variables
    optimizer.build(variables)
    gradients = tape.gradient(loss, [v.value for v in variables])
    pairs = [(v, g) for v, g in zip(variables, gradients, strict=True) if g is not None]
    norm, rate = optimizer.take_step([v for v, _ in pairs], [g for _, g in pairs])
    return {"gradient_norm": norm, "learning_rate": rate}
