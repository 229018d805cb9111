"""How much a model's scores move by rounding alone, and the tolerance that follows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from export.heads import head_of
from export.parity import Case
from export.task import Task

FACTOR = 32
"""Rounding of all operations, in another order, against that of the weights alone."""
SMALLEST = 2e-6
"""Scores of size 1 have an ulp of 6e-8; `erf` and `exp` are good to a few of them."""
_DRAWS = 2


def measured_tolerance(
    model: Any, task: Task, cases: Sequence[Case], ceiling: float
) -> float:
    """Returns the tolerance that fits a model: `FACTOR` times its own rounding noise.

    The noise is the largest difference of scores, for scores of size 1, when every
    weight is moved at random by one unit in its last place or left as it is. A fixed
    tolerance would be wide enough for the noisiest model, and pass another head on
    the others.

    Args:
        model: the model; its weights are as before afterwards.
        task: what it does.
        cases: inputs with the scores that Keras gives.
        ceiling: largest tolerance, whatever the noise.

    Returns:
        From `SMALLEST` to `ceiling`.
    """
    return float(
        min(ceiling, max(SMALLEST, FACTOR * rounding_noise(model, task, cases)))
    )


def rounding_noise(model: Any, task: Task, cases: Sequence[Case]) -> float:
    """Returns the largest difference of scores when weights move by their last place.

    Args:
        model: the model; its weights are as before afterwards.
        task: what it does.
        cases: inputs with the scores that Keras gives.
    """
    kept = [weight.numpy() for weight in model.weights]
    generator = np.random.default_rng(0)
    head = head_of(task)
    noise = 0.0
    try:
        for _ in range(_DRAWS):
            for weight, value in zip(model.weights, kept, strict=True):
                if np.issubdtype(value.dtype, np.floating):
                    weight.assign(_moved(value, generator))
            for case in cases:
                outputs = head.comparable(
                    case.inputs, head.reference(model, task, case.inputs)
                )
                for name, expected in case.outputs.items():
                    difference = np.abs(outputs[name] - expected).max(initial=0.0)
                    noise = max(noise, difference / np.abs(expected).max(initial=1.0))
    finally:
        for weight, value in zip(model.weights, kept, strict=True):
            weight.assign(value)
    return float(noise)


def _moved(value: Any, generator: np.random.Generator) -> Any:
    """Moves floats by one unit in the last place, up or down or not at all."""
    steps = generator.integers(-1, 2, value.shape).astype(value.dtype)
    return value + steps * np.spacing(np.abs(value))
