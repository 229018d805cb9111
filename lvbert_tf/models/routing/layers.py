"""What some positions compute and how they are updated, with their letters as data."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from lvbert_tf.layers.dropout import dropout_seed
from lvbert_tf.layers.residual import ResidualLayer
from lvbert_tf.models.routing.slots import SlotLayout, Slots
from lvbert_tf.optimization import AdamW

Weights = list[list[tf.Variable]]
"""For each position the variables of all letters, in order."""


class RoutedLayers:
    """Reads, computes and updates positions by their letters.

    Args:
        layers: one layer of each letter; those of other positions are like them.
        layout: how the weights and gradients of a position lie in slots.
    """

    def __init__(self, layers: Sequence[ResidualLayer], layout: SlotLayout) -> None:
        self.layers = layers
        self.layout = layout

    def read(self, letters: Any, weights: Weights) -> list[Slots]:
        """Returns the slots of k positions.

        Args:
            letters: int32 (k,).
            weights: of the positions.
        """
        return [
            self.layout.read(letters[i], self._by_letter(variables))
            for i, variables in enumerate(weights)
        ]

    def encode(
        self,
        letters: Any,
        x: Any,
        mask: Any,
        seeds: Any,
        slots: list[Slots],
        *,
        training: bool,
    ) -> Any:
        """Computes k positions, one on top of the other.

        Args:
            letters: int32 (k,).
            x: (B, T, H).
            mask: int32 (B, T), the padding mask.
            seeds: int32 (k, 2), seeds of the positions' dropout masks.
            slots: what `read` gave.
            training: whether to drop.

        Returns:
            (B, T, H).
        """

        def compute(j: int, i: int, x: Any) -> Any:
            weights = self.layout.of_letter(j, slots[i])
            return call_with(self.layers[j], weights, x, mask, seeds[i], training)

        return self._follow(letters, x, len(slots), compute)

    def encode_for_gradient(
        self, letters: Any, x: Any, mask: Any, seeds: Any, slots: list[Slots]
    ) -> Any:
        """Computes k positions, dropping, of which exactly one gradient is taken."""
        return self.encode(letters, x, mask, seeds, slots, training=True)

    def update(
        self,
        optimizer: AdamW,
        letters: Any,
        scale: Any,
        learning_rate: Any,
        weights: Weights,
        moments: Weights,
        gradients: list[Slots],
    ) -> None:
        """Updates the sampled layers of k positions and leaves all others untouched.

        Args:
            optimizer: built on the variables.
            letters: int32 (k,).
            scale: float32 scalar that multiplies the gradients.
            learning_rate: float32 scalar.
            weights: of the positions.
            moments: both moments of each weight, in the same order.
            gradients: like `read` gave slots.
        """

        def update(j: int, i: int) -> Any:
            own = self.layout.of_letter(j, gradients[i])
            letter_weights = self._by_letter(weights[i])[j]
            pairs = self._by_letter(moments[i], each=2)[j]
            for n, variable in enumerate(self.layers[j].trainable_variables):
                optimizer.updater(variable)(
                    letter_weights[n],
                    pairs[2 * n],
                    pairs[2 * n + 1],
                    own[n],
                    scale,
                    learning_rate,
                )
            return tf.constant(0)

        for i in range(len(gradients)):
            self._switch(letters[i], update, i)

    def _follow(
        self, letters: Any, x: Any, count: int, compute: Callable[[int, int, Any], Any]
    ) -> Any:
        """Passes x through `count` positions.

        Args:
            letters: int32 (count,).
            x: (B, T, H).
            count: number of positions.
            compute: takes (letter, position, x), the first two known while tracing.
        """
        for i in range(count):
            y = self._switch(letters[i], compute, i, x)
            y.set_shape(x.shape)
            x = y
        return x

    def _switch(self, letter: Any, body: Callable[..., Any], *arguments: Any) -> Any:
        """Returns `body(j, *arguments)` for the letter j that `letter` says."""
        branches = range(len(self.layers))
        return tf.switch_case(
            letter, [functools.partial(body, j, *arguments) for j in branches]
        )

    def _by_letter(self, items: Sequence[Any], each: int = 1) -> list[list[Any]]:
        """Splits a position's items (`each` a weight) by letter."""
        parts, start = [], 0
        for layer in self.layers:
            count = each * len(layer.trainable_variables)
            parts.append(list(items[start : start + count]))
            start += count
        return parts


def call_with(
    layer: ResidualLayer,
    weights: Sequence[Any],
    x: Any,
    mask: Any,
    seed: Any,
    training: bool,
) -> Any:
    """Calls a layer with other weights than its own."""
    mapping = list(zip(layer.trainable_variables, weights, strict=True))
    with keras.StatelessScope(state_mapping=mapping), dropout_seed(seed):
        return layer(x, padding_mask=mask, training=training)
