"""How the weights, or the gradients, of one position's sampled layer lie in slots.

Slots are a list of tensors whose length does not depend on the letter, so that the
letter can be data. There are two layouts, with the same results.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Slots = list[Any]
"""The tensors of one position."""

Shapes = Sequence[Sequence[tf.TensorShape]]
"""The shapes of each letter's weights."""


class SlotLayout(abc.ABC):
    """What both layouts offer; a `letter` is an index, known while tracing or not.

    Args:
        shapes: of each letter's weights.
        dtype: of all of them.
    """

    def __init__(self, shapes: Shapes, dtype: Any) -> None:
        self._shapes = shapes
        self._dtype = tf.as_dtype(dtype)

    @property
    @abc.abstractmethod
    def specs(self) -> list[tf.TensorSpec]:
        """Returns the slots' dtypes, and their shapes as far as they are known."""

    @abc.abstractmethod
    def read(self, letter: Any, weights: Sequence[Sequence[tf.Variable]]) -> Slots:
        """Returns slots that hold the weights of the letter, an int32 scalar tensor."""

    @abc.abstractmethod
    def of_letter(self, letter: int, slots: Slots) -> list[Any]:
        """Returns what `slots` hold of a letter, with its shapes."""

    @abc.abstractmethod
    def filled(self, letter: int, values: Sequence[Any]) -> Slots:
        """Returns slots that hold `values`, one for each weight of the letter."""


class SharedSlots(SlotLayout):
    """As many slots as the letter with most weights has; each fills the first ones.

    Their shapes are open, and those that a letter leaves over are empty. Only the
    sampled letter is read, and has gradients.
    """

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """Returns the slots' dtypes; their shapes depend on the letter."""
        return [tf.TensorSpec(None, self._dtype)] * self._count

    def read(self, letter: Any, weights: Sequence[Sequence[tf.Variable]]) -> Slots:
        """Returns slots that hold the weights of the letter, and nothing else."""

        def branch(j: int) -> Callable[[], Slots]:
            return lambda: self.filled(j, [v.read_value() for v in weights[j]])

        slots: Slots = tf.switch_case(letter, [branch(j) for j in range(len(weights))])
        return slots

    def of_letter(self, letter: int, slots: Slots) -> list[Any]:
        """Returns the first slots, with the letter's shapes."""
        # With its shape known TensorFlow can join operations on a tensor.
        return [
            tf.ensure_shape(slot, shape)
            for slot, shape in zip(slots, self._shapes[letter], strict=False)
        ]

    def filled(self, letter: int, values: Sequence[Any]) -> Slots:
        """Returns `values`, then empty slots."""
        left_over = self._count - len(self._shapes[letter])
        return [*values, *[tf.zeros((0,), self._dtype)] * left_over]

    @property
    def _count(self) -> int:
        return max(map(len, self._shapes))


class SeparateSlots(SlotLayout):
    """One slot for each weight of each letter, in order.

    All shapes are fixed, as XLA and with it a TPU need them, for the price of zeros as
    gradients of the letters that were not sampled.
    """

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """Returns the slots' shapes and dtypes."""
        return [
            tf.TensorSpec(shape, self._dtype)
            for letter_shapes in self._shapes
            for shape in letter_shapes
        ]

    def read(self, letter: Any, weights: Sequence[Sequence[tf.Variable]]) -> Slots:
        """Returns slots that hold the weights of every letter."""
        return [v.read_value() for letter_weights in weights for v in letter_weights]

    def of_letter(self, letter: int, slots: Slots) -> list[Any]:
        """Returns the letter's own slots."""
        start = sum(map(len, self._shapes[:letter]))
        return slots[start : start + len(self._shapes[letter])]

    def filled(self, letter: int, values: Sequence[Any]) -> Slots:
        """Returns slots that hold `values` for one letter and zeros for all others."""
        return [
            values[i] if j == letter else tf.zeros(shape, self._dtype)
            for j, letter_shapes in enumerate(self._shapes)
            for i, shape in enumerate(letter_shapes)
        ]
