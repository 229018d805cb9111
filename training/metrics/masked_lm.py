"""Figures of networks that predict tokens, from sums over predicted positions.

Of the predicted positions some show their own token instead of [MASK]: copying is right
there. What a network has learned shows at the others, which `loss` and `accuracy` are
of; figures over all positions end in `_all`, those of the kept ones in `_kept`.
"""

import math
from collections.abc import Mapping
from typing import Any

from common.command_line import CommandError


def masked_lm_figures(sums: Mapping[str, Any]) -> dict[str, Any]:
    """Returns losses (nats) and accuracies per position from the sums of `test_step`.

    Args:
        sums: `loss_sum`, `correct`, `masked_tokens` of the positions that show [MASK],
            `loss_sum_all`, `correct_all`, `predicted_tokens` of all.

    Returns:
        `loss` and `accuracy` with `_all` and `_kept` beside them, `masked_tokens` and
        `predicted_tokens`. Those of kept positions are None where there are none.

    Raises:
        CommandError: if no position shows [MASK].
    """
    masked = float(sums["masked_tokens"])
    predicted = float(sums["predicted_tokens"])
    if masked == 0:
        raise CommandError(
            "the held-out set has no masked token: expected at least one example "
            "with a token that is not special, and [MASK] in the place of one"
        )
    kept = predicted - masked

    def of_kept(name: str) -> float | None:
        if kept == 0:
            return None
        return (float(sums[f"{name}_all"]) - float(sums[name])) / kept

    return {
        "loss": float(sums["loss_sum"]) / masked,
        "accuracy": float(sums["correct"]) / masked,
        "loss_all": float(sums["loss_sum_all"]) / predicted,
        "accuracy_all": float(sums["correct_all"]) / predicted,
        "loss_kept": of_kept("loss_sum"),
        "accuracy_kept": of_kept("correct"),
        "masked_tokens": masked,
        "predicted_tokens": predicted,
    }


def standard_error(accuracy: float, count: float) -> float:
    """Returns the standard error of a share of `count` independent tokens.

    It depends on the totals alone, so neither on batch size nor on order. Tokens of
    one example are not quite independent, which it leaves out.
    """
    return math.sqrt(accuracy * (1.0 - accuracy) / count)
