"""All layer types at every position, of which each call uses one path.

The route is data: neither another route nor another step traces anything again, and
gradients exist for the sampled letters only.
"""

from typing import Any

import keras
import tensorflow as tf

from lvbert_tf.distribution import compiles_with_xla, local_variable
from lvbert_tf.layers.dropout import salted
from lvbert_tf.layers.encoder import make_projection, make_residual_layer
from lvbert_tf.layers.registry import LayerOptions
from lvbert_tf.models.routing.layers import RoutedLayers, call_with
from lvbert_tf.models.routing.slots import SeparateSlots, SharedSlots, Slots
from lvbert_tf.models.routing.traced_layers import TracedRoutedLayers
from lvbert_tf.optimization import AdamW

_GROUP = 4
"""Positions that one traced function computes. Between functions one core waits for
the other, which cost 4% a step at one position each; and a larger one takes longer to
optimise."""


class RoutedEncoder(keras.layers.Layer):
    """An encoder that holds one layer of every letter at each position.

    Args:
        letters: the layer types, for example "csf"; a route's values index it.
        num_layers: number of positions L.
        options: sizes of the layers.
        dropout: dropout rate of each layer's output.
    """

    def __init__(
        self,
        letters: str,
        num_layers: int,
        options: LayerOptions,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.letters = letters
        self.options = options
        self.projection: keras.layers.Dense | None = None
        self.positions = [
            [
                make_residual_layer(
                    letter, options, dropout, self.dtype_policy, f"layer_{i}_{letter}"
                )
                for letter in letters
            ]
            for i in range(num_layers)
        ]
        # Keras would compile by itself where there is a GPU.
        self.supports_jit = False

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the weights for inputs (B, T, E)."""
        if input_shape[-1] != self.options.hidden_dim:
            self.projection = make_projection(
                self.options.hidden_dim, self.dtype_policy
            )
            self.projection.build(input_shape)
        for position in self.positions:
            for layer in position:
                layer.build((*input_shape[:-1], self.options.hidden_dim))
        self.set_compiled(compiles_with_xla())
        self.built = True

    def set_compiled(self, compiled: bool) -> None:
        """Chooses how routes are followed, with the same results.

        Args:
            compiled: whether XLA compiles the steps, which needs fixed shapes; the
                default under a `tf.distribute.TPUStrategy`. Otherwise a step starts
                sooner and costs less.
        """
        layers = self.positions[0]
        shapes = [[v.shape for v in layer.trainable_variables] for layer in layers]
        if compiled:
            layout = SeparateSlots(shapes, self.variable_dtype)
            self._routed = RoutedLayers(layers, layout)
        else:
            shared = SharedSlots(shapes, self.variable_dtype)
            self._routed = TracedRoutedLayers(layers, shared)

    def read_slots(self, route: Any) -> list[Slots]:
        """Returns the weights of the sampled layers, one list for each position."""
        slots: list[Slots] = []
        for group in self._groups():
            weights = [self._local_weights(i) for i in group]
            slots += self._routed.read(_of(route, group), weights)
        return slots

    def encode(
        self,
        inputs: Any,
        route: Any,
        slots: list[Slots],
        padding_mask: Any,
        *,
        training: bool = False,
        for_gradient: bool = False,
        seed: Any = None,
    ) -> Any:
        """Encodes along the route.

        Args:
            inputs: (B, T, E).
            route: int32 (L,), which letter to take at each position.
            slots: what `read_slots(route)` gave; gradients with respect to them are
                those of the sampled layers.
            padding_mask: int32 (B, T).
            training: whether to drop.
            for_gradient: whether exactly one gradient is taken in the same graph, which
                then costs less; the layers drop.
            seed: int32 (2,) seed of the dropout masks.

        Returns:
            (B, T, H).
        """
        seed = tf.zeros((2,), tf.int32) if seed is None else seed
        # One function serves all positions, so that their seeds must tell them apart.
        seeds = [salted(seed, (i + 1) * 0x85EBCA6B) for i in range(len(slots))]
        x = self.enter(inputs)
        for group in self._groups():
            arguments = (
                _of(route, group),
                x,
                padding_mask,
                tf.stack([seeds[i] for i in group]),
                [slots[i] for i in group],
            )
            x = (
                self._routed.encode_for_gradient(*arguments)
                if for_gradient
                else self._routed.encode(*arguments, training=training)
            )
        return x

    def enter(self, inputs: Any) -> Any:
        """Returns what the first position takes, (B, T, H), of inputs (B, T, E)."""
        return inputs if self.projection is None else self.projection(inputs)

    def step(self, letter: int, hidden: Any, padding_mask: Any, weights: Slots) -> Any:
        """Computes one layer of any position, without dropout: as `encode` would.

        Args:
            letter: index of the letter.
            hidden: (B, T, H), what the position below gave, or `enter`.
            padding_mask: int32 (B, T).
            weights: what `layer_weights` gave for a position and the letter.

        Returns:
            (B, T, H).
        """
        layer = self.positions[0][letter]
        seed = tf.zeros((2,), tf.int32)
        return call_with(layer, weights, hidden, padding_mask, seed, False)

    def layer_weights(self, position: int, letter: int) -> Slots:
        """Returns this replica's weights of one layer, as tensors."""
        layer = self.positions[position][letter]
        return [local_variable(v).read_value() for v in layer.trainable_variables]

    def update(
        self,
        optimizer: AdamW,
        route: Any,
        gradients: list[Slots],
        scale: Any,
        learning_rate: Any,
    ) -> None:
        """Updates the sampled layers and leaves all others untouched, bit for bit.

        Args:
            optimizer: built on the variables of this layer.
            route: int32 (L,).
            gradients: one list for each position, like `read_slots` gave.
            scale: float32 scalar that multiplies the gradients.
            learning_rate: float32 scalar.
        """
        for group in self._groups():
            self._routed.update(
                optimizer,
                _of(route, group),
                scale,
                learning_rate,
                [self._local_weights(i) for i in group],
                [self._local_moments(optimizer, i) for i in group],
                [gradients[i] for i in group],
            )

    def _groups(self) -> list[range]:
        count = len(self.positions)
        return [range(i, min(i + _GROUP, count)) for i in range(0, count, _GROUP)]

    def _local_weights(self, i: int) -> list[tf.Variable]:
        return [
            local_variable(variable)
            for layer in self.positions[i]
            for variable in layer.trainable_variables
        ]

    def _local_moments(self, optimizer: AdamW, i: int) -> list[tf.Variable]:
        return [
            local_variable(moment)
            for layer in self.positions[i]
            for variable in layer.trainable_variables
            for moment in optimizer.slots(variable)
        ]


def _of(route: Any, group: range) -> Any:
    return route[group.start : group.stop]
