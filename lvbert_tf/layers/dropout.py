"""Dropout whose mask is a pure function of its coordinates.

A stock dropout layer draws from a counter in a variable: its masks differ after a
resume, and agree on every replica. Inside `dropout_seed` a mask depends only on the
seed of the scope, which the caller derives from (seed, step, replica), and on the
layer's own path. Outside, the layer behaves as the stock one.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from lvbert_tf.layers.arguments import check_rates

_SCOPE: ContextVar[Any] = ContextVar("dropout_seed", default=None)


@contextlib.contextmanager
def dropout_seed(seed: Any) -> Iterator[None]:
    """Makes every `Dropout` within the block derive its mask from `seed`.

    Args:
        seed: int32 tensor of shape (2,), equal wherever the masks shall be equal.
    """
    token = _SCOPE.set(seed)
    try:
        yield
    finally:
        _SCOPE.reset(token)


@contextlib.contextmanager
def salted_dropout(salt: int) -> Iterator[None]:
    """Makes masks within the block differ from those of the enclosing seed.

    A layer that is called twice in a step would otherwise drop the same values twice.
    Outside of `dropout_seed` it changes nothing: there each call draws anew.

    Args:
        salt: any integer; see `salted`.
    """
    seed = _SCOPE.get()
    if seed is None:
        yield
        return
    with dropout_seed(salted(seed, salt)):
        yield


def salted(seed: Any, salt: int) -> Any:
    """Returns another seed, which `salt` tells apart from those of other salts.

    Args:
        seed: int32 tensor of shape (2,).
        salt: any integer; its lowest 32 bits count.

    Returns:
        int32 tensor of shape (2,). Sums wrap around, as int32 arithmetic does.
    """
    salt &= 0xFFFFFFFF
    signed = salt - (1 << 32) if salt >= 1 << 31 else salt
    return seed + ops.convert_to_tensor([signed, 0], dtype="int32")


class ScopedSeedGenerator(keras.random.SeedGenerator):
    """Takes its seeds from the enclosing `dropout_seed`, if there is one."""

    def __init__(self, layer: keras.layers.Layer, seed: int | None) -> None:
        self._layer_of: Callable[[], keras.layers.Layer] = lambda: layer
        super().__init__(seed)

    def next(self, ordered: bool = True) -> Any:
        """Returns the scope's seed for the layer, or the next of its own."""
        seed = _SCOPE.get()
        if seed is None:
            return super().next(ordered)
        return salted(seed, zlib.crc32(self._layer_of().path.encode()))


@keras.saving.register_keras_serializable(package="lvbert_tf")
class Dropout(keras.layers.Layer):
    """Dropout that obeys `dropout_seed`; outside of it like `keras.layers.Dropout`.

    Args:
        rate: share of the values to drop, in [0, 1).
        seed: int seed of the masks outside of `dropout_seed`; None for a random one.

    Call arguments:
        inputs: float tensor of any shape.
        training: whether to drop.

    Returns:
        A tensor like `inputs`; kept values are scaled by 1 / (1 - rate).

    Raises:
        ValueError: if `rate` is not in [0, 1).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        check_rates(rate=rate)
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = seed
        self.supports_masking = True
        if rate > 0:
            self.seed_generator = ScopedSeedGenerator(self, seed)

    def build(self, *_: Any) -> None:
        """Creates nothing."""
        self.built = True

    def call(self, inputs: Any, training: bool | None = False) -> Any:
        """Drops values of `inputs` if `training`."""
        if not training or self.rate == 0:
            return inputs
        return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the output, which is that of the input."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
