"""`RoutedLayers` whose functions are traced once and called for all positions.

24 positions with three layers each, and as many gradients and updates, would take
TensorFlow most of a minute to optimise.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from lvbert_tf.distribution import static_replica_id
from lvbert_tf.layers.residual import ResidualLayer
from lvbert_tf.models.routing.layers import RoutedLayers, Weights, call_with
from lvbert_tf.models.routing.slots import SlotLayout, Slots
from lvbert_tf.models.routing.two_passes import (
    Stacks,
    TwoPasses,
    free,
    make_stacks,
    pop,
    push,
    stack_specs,
    two_passes,
)
from lvbert_tf.optimization import AdamW


class TracedRoutedLayers(RoutedLayers):
    """Equal to `RoutedLayers` in value; for graphs only.

    Args:
        layers: one layer of each letter; those of other positions are like them.
        layout: how the weights and gradients of a position lie in slots.
    """

    def __init__(self, layers: Sequence[ResidualLayer], layout: SlotLayout) -> None:
        super().__init__(layers, layout)
        self._made: dict[Hashable, Any] = {}

    def read(self, letters: Any, weights: Weights) -> list[Slots]:
        """Returns the slots of k positions."""
        read = self._once("read", functools.partial(_shared, super().read))
        slots: list[Slots] = read(letters, weights)
        return slots

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
        """Computes k positions."""
        mask = tf.convert_to_tensor(mask)

        def encode(*arguments: Any) -> Any:
            return super(TracedRoutedLayers, self).encode(*arguments, training=training)

        key = ("encode", training, *_specs(x, mask), len(slots), static_replica_id())
        specs = self._argument_specs(x, mask, seeds, slots)
        traced = self._once(key, functools.partial(_shared, encode, specs))
        return traced(letters, x, mask, seeds, slots)

    def encode_for_gradient(
        self, letters: Any, x: Any, mask: Any, seeds: Any, slots: list[Slots]
    ) -> Any:
        """Computes k positions, dropping, of which exactly one gradient is taken.

        What it saves for that stays in memory until the gradient is computed.

        Raises:
            tf.errors.NotFoundError: when the graph runs, if a second gradient is taken.
        """
        mask = tf.convert_to_tensor(mask)
        here = (*_specs(x, mask), static_replica_id())
        passes = self._once(
            ("passes", *here), functools.partial(self._two_passes, *_specs(x, mask))
        )
        specs = self._argument_specs(x, mask, seeds, slots)
        specs.append([stack_specs(passes)] * len(slots))
        forward, backward = (
            self._once(
                (body.__name__, *here, len(slots)),
                functools.partial(_shared, functools.partial(body, passes), specs),
            )
            for body in (self._forward, self._backward)
        )
        stacks = [make_stacks(passes) for _ in slots]

        @tf.custom_gradient
        def compute(*inputs: Any) -> Any:
            # So that no tape asks TensorFlow for a gradient of `forward` itself.
            x, *flat = map(tf.stop_gradient, inputs)
            own = tf.nest.pack_sequence_as(slots, flat)
            y = forward(letters, x, mask, seeds, own, stacks)

            def gradient(grad_y: Any) -> tuple[Any, ...]:
                grad_x, grad_slots = backward(letters, grad_y, mask, seeds, own, stacks)
                return grad_x, *tf.nest.flatten(grad_slots)

            return y, gradient

        return compute(x, *tf.nest.flatten(slots))

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
        """Updates the sampled layers of k positions."""
        body = functools.partial(super().update, optimizer)
        update = self._once(("update", id(optimizer)), lambda: _shared(body))
        update(letters, scale, learning_rate, weights, moments, gradients)

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned when the key was new."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _argument_specs(
        self, x: Any, mask: Any, seeds: Any, slots: list[Slots]
    ) -> list[Any]:
        return [
            tf.TensorSpec((len(slots),), tf.int32),
            *_specs(x, mask),
            tf.TensorSpec(seeds.shape, tf.int32),
            [self.layout.specs] * len(slots),
        ]

    def _two_passes(self, x: tf.TensorSpec, mask: tf.TensorSpec) -> list[TwoPasses]:
        """Returns each letter's forward pass and gradient, dropping."""

        def split(layer: ResidualLayer) -> TwoPasses:
            def call(x: Any, mask: Any, seed: Any, *weights: Any) -> Any:
                return call_with(layer, weights, x, mask, seed, True)

            weights = [
                tf.TensorSpec(v.shape, v.dtype) for v in layer.trainable_variables
            ]
            return two_passes(call, x, [mask, tf.TensorSpec((2,), tf.int32)], weights)

        return list(map(split, self.layers))

    def _forward(
        self,
        passes: list[TwoPasses],
        letters: Any,
        x: Any,
        mask: Any,
        seeds: Any,
        slots: list[Slots],
        stacks: list[Stacks],
    ) -> Any:
        def compute(j: int, i: int, x: Any) -> Any:
            own = self.layout.of_letter(j, slots[i])
            y, *saved = passes[j].forward(x, mask, seeds[i], *own)
            push(stacks[i], saved)
            return y

        return self._follow(letters, x, len(slots), compute)

    def _backward(
        self,
        passes: list[TwoPasses],
        letters: Any,
        grad_y: Any,
        mask: Any,
        seeds: Any,
        slots: list[Slots],
        stacks: list[Stacks],
    ) -> tuple[Any, list[Slots]]:
        def differentiate(j: int, i: int, grad_y: Any) -> list[Any]:
            own = self.layout.of_letter(j, slots[i])
            saved = pop(stacks[i], passes[j].saved)
            grad_x, *grad_weights = passes[j].backward(
                grad_y, mask, seeds[i], *own, *saved
            )
            return [grad_x, *self.layout.filled(j, grad_weights)]

        grad_slots: list[Slots] = [[]] * len(slots)
        for i in reversed(range(len(slots))):
            grad_x, *grad_slots[i] = self._switch(letters[i], differentiate, i, grad_y)
            grad_x.set_shape(grad_y.shape)
            grad_y = grad_x
            free(stacks[i])
        return grad_y, grad_slots


def _specs(*tensors: Any) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]


def _shared(body: Callable[..., Any], specs: Sequence[Any] | None = None) -> Any:
    """Returns a traced function whose body TensorFlow does not copy to its calls.

    Args:
        body: what it does.
        specs: of its arguments, where those of a call say less than they could, as the
            open shapes of slots do; None to take them from the first call.
    """
    function = tf.function(
        body, autograph=False, experimental_attributes={"_noinline": True}
    )
    return function if specs is None else function.get_concrete_function(*specs)
