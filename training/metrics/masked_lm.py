"""What sums over predicted tokens say."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

from typing import TYPE_CHECKING

from command_line import CommandError

if TYPE_CHECKING:
    pass


def masked_lm_figures(sums: dict[str, Any]) -> dict[str, Any]:
    """Returns loss (nats) and accuracy per masked token from the sums of `test_step`.

    Raises:
        CommandError: if nothing was masked.
    """
    masked = float(sums["masked_tokens"])
    if masked == 0:
        raise CommandError(
            "the held-out set has no masked token: expected at least one example "
            "with a token that is not special"
        )
    return {
        "loss": float(sums["loss_sum"]) / masked,
        "accuracy": float(sums["correct"]) / masked,
        "masked_tokens": masked,
    }


def standard_error(accuracy: float, count: float) -> float:
    """Returns the standard error of a share of `count` independent tokens.

    It depends on the totals alone, so neither on batch size nor on order. Tokens of
    one example are not quite independent, which it leaves out.
    """
    return math.sqrt(accuracy * (1.0 - accuracy) / count)
