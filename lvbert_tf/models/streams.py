"""Generators and `PyDataset`s of raw batches, preprocessed on their way to Keras."""

from collections.abc import Callable
from typing import Any

import keras


class _Preprocessed(keras.utils.PyDataset):
    """A `PyDataset` whose batches go through a function."""

    def __init__(self, source: Any, prepare: Callable[[Any], Any]) -> None:
        super().__init__(
            workers=source.workers,
            use_multiprocessing=source.use_multiprocessing,
            max_queue_size=source.max_queue_size,
        )
        self._source = source
        self._prepare = prepare

    @property
    def num_batches(self) -> int | None:
        """Returns the source's number of batches."""
        count: int | None = self._source.num_batches
        return count

    def __getitem__(self, index: int) -> Any:
        return self._prepare(self._source[index])

    def on_epoch_begin(self) -> None:
        """Tells the source that an epoch begins or ends."""
        self._source.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Tells the source that an epoch begins or ends."""
        self._source.on_epoch_end()


def preprocessed(
    stream: Any,
    check: Callable[[Any, Any, Any], Any],
    preprocess: Callable[[Any], Any],
) -> Any:
    """Returns the stream with every batch checked and preprocessed.

    Args:
        stream: a `keras.utils.PyDataset` or a generator of `x`, `(x, y)` or
            `(x, y, sample_weight)`.
        check: takes these three, and returns them as arrays.
        preprocess: makes the model's inputs, targets and weights of them.
    """

    def prepare(batch: Any) -> Any:
        parts = check(*keras.utils.unpack_x_y_sample_weight(batch))
        return keras.utils.pack_x_y_sample_weight(*preprocess(parts))

    if isinstance(stream, keras.utils.PyDataset):
        return _Preprocessed(stream, prepare)
    return (prepare(batch) for batch in stream)
