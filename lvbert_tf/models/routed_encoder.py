"""All layer types at every position, of which each call uses one path.

The route is data. Tracing 24 positions with three layers each, and as many gradients
and updates, would take minutes and hold zeros for what a step did not use. Instead a
position's weights are read into a fixed number of slots by one `tf.switch_case`; one
traced function computes any position from its slots, and one traced function for each
kind of layer updates it. Gradients exist for the sampled letters only.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from lvbert_tf.distribution import local_variable, static_replica_id
from lvbert_tf.layers.dropout import dropout_seed, salted
from lvbert_tf.layers.encoder import make_projection, make_residual_layer
from lvbert_tf.layers.registry import LayerOptions
from lvbert_tf.layers.residual import ResidualLayer
from lvbert_tf.optimization import AdamW

_AS_CALLED = {"_noinline": True}
"""Keeps TensorFlow from copying a function's body to each of its calls: optimising 24
copies of three layers, their gradients and updates took ten times as long as the rest
of the start, and one copy serves all of them as well."""

Slots = list[Any]
"""The weights, or the gradients, of one position's sampled layer: a fixed number of
tensors, of which the last may be empty."""


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
        self._functions: dict[str, Callable[..., Any]] = {}

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
        self.built = True

    @property
    def num_slots(self) -> int:
        """The number of weights of the layer type that has most."""
        return max(len(layer.trainable_variables) for layer in self.positions[0])

    def read_slots(self, route: Any) -> list[Slots]:
        """Returns the weights of the sampled layers, one list for each position."""
        read = self._function("read", self._read)
        return [
            read(route[i], *self._local_weights(i)) for i in range(len(self.positions))
        ]

    def encode(
        self,
        inputs: Any,
        route: Any,
        slots: list[Slots],
        padding_mask: Any,
        *,
        training: bool = False,
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
            seed: int32 (2,) seed of the dropout masks.

        Returns:
            (B, T, H).
        """
        seed = tf.zeros((2,), tf.int32) if seed is None else seed
        x = self.enter(inputs)
        compute = self._computation(training, x, padding_mask)
        for i, weights in enumerate(slots):
            # One traced function serves all positions, so the seed tells them apart.
            seed_here = salted(seed, (i + 1) * 0x85EBCA6B)
            x = compute(route[i], x, padding_mask, seed_here, *weights)
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
        return _call_with(layer, weights, hidden, padding_mask, False, seed)

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
        apply = self._function(f"update_{id(optimizer)}", self._updates(optimizer))
        for i, gradients_of_position in enumerate(gradients):
            apply(
                route[i],
                scale,
                learning_rate,
                self._local_weights(i),
                self._local_moments(optimizer, i),
                list(gradients_of_position),
            )

    def _function(self, name: str, body: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the one traced function of that name."""
        if name not in self._functions:
            self._functions[name] = tf.function(
                body, autograph=False, experimental_attributes=_AS_CALLED
            )
        return self._functions[name]

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

    def _split_by_letter(self, items: Sequence[Any], each: int = 1) -> list[list[Any]]:
        """Splits what `_local_weights` lists (`each` items a weight) by letter."""
        parts, start = [], 0
        for layer in self.positions[0]:
            count = each * len(layer.trainable_variables)
            parts.append(list(items[start : start + count]))
            start += count
        return parts

    def _read(self, letter: Any, *weights: tf.Variable) -> Slots:
        empty = [tf.zeros((0,), weights[0].dtype)] * self.num_slots

        def branch(own: list[tf.Variable]) -> Callable[[], Slots]:
            return lambda: [v.read_value() for v in own] + empty[len(own) :]

        return tf.switch_case(
            letter, [branch(own) for own in self._split_by_letter(weights)]
        )

    def _computation(
        self, training: bool, x: Any, padding_mask: Any
    ) -> Callable[..., Any]:
        """Returns the one function that computes any position from its slots."""
        # The shapes of a layer's weights are known inside its own function, so that
        # TensorFlow can join operations there.
        bodies = [
            tf.function(
                functools.partial(_call_with, layer, training=training),
                autograph=False,
                experimental_attributes=_AS_CALLED,
            )
            for layer in self.positions[0]
        ]

        def compute(letter: Any, x: Any, mask: Any, seed: Any, *slots: Any) -> Any:
            def branch(layer: ResidualLayer, body: Any) -> Callable[[], Any]:
                own = layer.trainable_variables
                return lambda: body(
                    [
                        tf.ensure_shape(w, v.shape)
                        for w, v in zip(slots, own, strict=False)
                    ],
                    x,
                    mask,
                    seed=seed,
                )

            y = tf.switch_case(letter, list(map(branch, self.positions[0], bodies)))
            y.set_shape(x.shape)
            return y

        mask = tf.convert_to_tensor(padding_mask)
        name = f"compute_{training}_{x.dtype.name}_{x.shape}_{mask.dtype.name}"
        name += f"_{mask.shape}_{static_replica_id()}"
        if name not in self._functions:
            # The slots' shapes depend on the letter: their specification leaves them
            # open, so that neither another route nor eager use traces again.
            self._functions[name] = tf.function(
                compute, autograph=False
            ).get_concrete_function(
                tf.TensorSpec((), tf.int32),
                tf.TensorSpec(x.shape, x.dtype),
                tf.TensorSpec(mask.shape, mask.dtype),
                tf.TensorSpec((2,), tf.int32),
                *[tf.TensorSpec(None, self.variable_dtype)] * self.num_slots,
            )
        return self._functions[name]

    def _updates(self, optimizer: AdamW) -> Callable[..., None]:
        def apply(
            letter: Any,
            scale: Any,
            learning_rate: Any,
            weights: list[tf.Variable],
            moments: list[tf.Variable],
            gradients: list[Any],
        ) -> None:
            def branch(
                layer: ResidualLayer, own: list[Any], own_moments: list[Any]
            ) -> Callable[[], Any]:
                def update() -> Any:
                    for j, variable in enumerate(layer.trainable_variables):
                        optimizer.updater(variable)(
                            own[j],
                            own_moments[2 * j],
                            own_moments[2 * j + 1],
                            tf.ensure_shape(gradients[j], own[j].shape),
                            scale,
                            learning_rate,
                        )
                    return tf.constant(0)

                return update

            tf.switch_case(
                letter,
                [
                    branch(*parts)
                    for parts in zip(
                        self.positions[0],
                        self._split_by_letter(weights),
                        self._split_by_letter(moments, each=2),
                        strict=True,
                    )
                ],
            )

        return apply


def _call_with(
    layer: ResidualLayer,
    weights: Sequence[Any],
    x: Any,
    mask: Any,
    training: bool,
    seed: Any,
) -> Any:
    """Calls a layer with other weights than its own."""
    mapping = list(zip(layer.trainable_variables, weights, strict=True))
    with keras.StatelessScope(state_mapping=mapping), dropout_seed(seed):
        return layer(x, padding_mask=mask, training=training)
