"""The supernet's forward pass as a few compiled functions, on every device.

Compiled are the embeddings, a layer of each letter with its weights as data, and the
head: all that any candidate needs, traced once. Each replica works on its rows of a
batch. The weights are those at the time when the functions were made.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from lvbert_tf import LVBertSupernet
from lvbert_tf.models.pretraining import Batch
from lvbert_tf.models.routing.slots import Slots
from training.run.devices import Distribution
from training.scoring.masked_lm_rows import MaskedLMRows, masked_lm_rows

Rows = NDArray[np.float64]
"""float64 (6, rows): of each example the sums of `MaskedLMRows`."""


class PathFunctions:
    """The forward pass of `LVBertSupernet.test_step` in compiled pieces.

    `finish` of `step` of ... of `step` of `begin` computes what the whole path does,
    without dropout.

    Args:
        supernet: with its trained weights.
        distribution: the devices; batches are what its `distribute` yields.
    """

    def __init__(self, supernet: LVBertSupernet, distribution: Distribution) -> None:
        strategy = distribution.strategy
        self._strategy = strategy
        self._letters = supernet.letters
        self._routes = supernet.route
        encoder = supernet.encoder

        def begin(batch: Batch) -> Any:
            ids, segments = batch["token_ids"], batch["segment_ids"]
            return encoder.enter(supernet.embeddings(ids, segments, training=False))

        def finish(hidden: Any, batch: Batch) -> MaskedLMRows:
            logits = supernet.masked_lm_head(
                hidden,
                batch["mask_positions"],
                supernet.token_embedding.embeddings,
                training=False,
            )
            return masked_lm_rows(logits, batch)

        def whole(batch: Batch, route: Any) -> MaskedLMRows:
            rows = batch["token_ids"].shape[0]
            routed = {**batch, "route": tf.tile(route[tf.newaxis], (rows, 1))}
            return masked_lm_rows(supernet(routed, training=False), batch)

        def weights() -> list[list[Slots]]:
            return [
                [encoder.layer_weights(i, j) for j in range(len(position))]
                for i, position in enumerate(encoder.positions)
            ]

        def compiled(function: Callable[..., Any]) -> Any:
            def everywhere(*arguments: Any) -> Any:
                return strategy.run(function, args=arguments)

            # TensorFlow takes functions of one code for one that is traced too often;
            # of partial ones it does not see the code.
            return tf.function(functools.partial(everywhere), autograph=False)

        self._begin = compiled(begin)
        self._steps = [
            compiled(functools.partial(encoder.step, letter))
            for letter in range(len(supernet.letters))
        ]
        self._finish = compiled(finish)
        self._whole = compiled(whole)
        # Read once: a candidate's layer then costs one call with its weights as data.
        self._weights = compiled(weights)()

    @property
    def traces(self) -> int:
        """How many traces there are: one for each letter, and two."""
        functions = [self._begin, *self._steps, self._finish, self._whole]
        return sum(f.experimental_get_tracing_count() for f in functions)

    def begin(self, batch: Batch) -> Any:
        """Returns the hidden states below the first layer."""
        return self._begin(batch)

    def step(self, position: int, letter: str, hidden: Any, batch: Batch) -> Any:
        """Returns the hidden states above a layer of that letter."""
        index = self._letters.index(letter)
        weights = self._weights[position][index]
        return self._steps[index](hidden, batch["padding_mask"], weights)

    def finish(self, hidden: Any, batch: Batch) -> Rows:
        """Returns what the states above the last layer predict."""
        return self._host(self._finish(hidden, batch))

    def whole(self, candidate: str, batch: Batch) -> Rows:
        """Returns what a whole path predicts, computed in one piece."""
        route = tf.constant(self._routes(candidate), tf.int32)
        return self._host(self._whole(batch, route))

    def state_bytes(self, hidden: Any) -> int:
        """Returns how much memory hidden states take, over this process's replicas."""
        return sum(
            part.shape.num_elements() * part.dtype.size
            for part in self._strategy.experimental_local_results(hidden)
        )

    def _host(self, rows: Any) -> Rows:
        parts = [self._strategy.experimental_local_results(value) for value in rows]
        return np.stack(
            [np.concatenate([piece.numpy() for piece in part]) for part in parts]
        ).astype(np.float64)
