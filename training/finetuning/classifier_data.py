"""Examples of a task as batches of raw strings for tf.data and Keras."""

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from training.finetuning.tasks import Example


def strings(examples: Sequence[Example]) -> Any:
    """Returns the texts as a preprocessor takes them: a list, or for pairs a tuple."""
    if len(examples[0].texts) == 1:
        return [example.texts[0] for example in examples]
    return tuple(
        [example.texts[part] for example in examples]
        for part in range(len(examples[0].texts))
    )


def class_indices(examples: Sequence[Example], labels: Sequence[str]) -> list[int]:
    """Returns the index of every example's label."""
    places = {label: index for index, label in enumerate(labels)}
    return [places[example.label] for example in examples]


def batches(examples: Sequence[Example], batch_size: int) -> Iterator[Any]:
    """Yields the texts in order, a batch at a time."""
    for start in range(0, len(examples), batch_size):
        yield strings(examples[start : start + batch_size])


def training_dataset(
    examples: Sequence[Example],
    indices: Sequence[int],
    *,
    batch_size: int,
    seed: int,
) -> "tf.data.Dataset":
    """Returns batches of (texts, class indices), in another order in every epoch.

    Args:
        examples: the training examples.
        indices: their class indices.
        batch_size: B; the last batch of an epoch may be smaller.
        seed: of the order.
    """
    dataset = tf.data.Dataset.from_tensor_slices((strings(examples), list(indices)))
    return dataset.shuffle(
        len(examples), seed=seed, reshuffle_each_iteration=True
    ).batch(batch_size)
