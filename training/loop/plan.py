"""What the training loop is given: a model, its data, what the figures mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

Figures = dict[str, Any]
"""Name of a figure to its value."""


@dataclass(frozen=True)
class Plan:
    """What is trained, on what, and what its figures mean.

    Attributes:
        label: a word for the progress bar.
        model: has `train_step(batch)`, `test_step(batch)` and a built `optimizer`.
        training_batches: from the number of the first step, this worker's rows of
            every global batch from that step on, without end.
        validation_batches: this worker's rows of the held-out batches, all of one
            static shape.
        summarize: sums of `test_step` over the held-out batches to figures; one of
            them is `loss`, by which the best checkpoint is chosen.
        train_figures: means of `train_step`'s figures over the steps since the last
            line of the log, to the figures of the line: ratios of what was summed.
        describe_step: what a message should say of a step besides its number, for
            example its route; or an empty string.
        parts: what a step makes use of, each with a running mean of the loss of its
            own; see `training.loop.running_losses`.
        write_model: writes the model to a directory, at the end and whenever the
            held-out loss is the best so far.
    """

    label: str
    model: Any
    training_batches: Callable[[int], "tf.data.Dataset"]
    validation_batches: Callable[[], "tf.data.Dataset"]
    summarize: Callable[[Figures], Figures]
    train_figures: Callable[[Figures], Figures] = field(default=dict)
    describe_step: Callable[[int], str] = field(default=lambda step: "")
    parts: Callable[[int], Sequence[str]] = field(default=lambda step: ())
    write_model: Callable[[Path], None] | None = None
