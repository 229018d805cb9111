"""Rows of arrays, lists and table columns, checked before any graph sees them."""

import inspect
import random
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.models.text_batches import text_rows

BATCH_SIZE = 32
"""Rows of a batch where nobody says, as in Keras."""


def is_stream(x: Any) -> bool:
    """Whether `x` brings its own batches: a dataset, a `PyDataset` or a generator."""
    if isinstance(x, keras.utils.PyDataset) or inspect.isgenerator(x):
        return True
    return is_dataset(x)


def is_dataset(x: Any) -> bool:
    """Whether `x` is a dataset of tf.data or of Grain, which KerasHub maps."""
    # Grain's without importing what need not be installed.
    return isinstance(x, tf.data.Dataset) or type(x).__module__.startswith("grain")


def text_column(values: Any, name: str) -> tf.Tensor:
    """Returns strings (B,) from a list, an array, a tensor or a table's column.

    Characters that UTF-8 has no form for (lone surrogates) are dropped, as in served
    graphs.

    Args:
        values: strings (B,) or (B, 1), str or bytes.
        name: what the message calls them.

    Raises:
        ValueError: for another rank, or naming the first row that is no string.
    """
    if isinstance(values, (str, bytes)):
        raise ValueError(
            f"`{name}` must be a list of strings. Received: the string {values!r:.80}. "
            "Wrap it in a list."
        )
    if isinstance(values, tf.RaggedTensor):
        return text_rows(values, name)
    # As objects: numpy would write a NaN among strings as the text "nan".
    array = _array(values, name, None if hasattr(values, "__array__") else object)
    if array.dtype.kind not in "OSUT":
        return text_rows(array, name)
    flat = [_utf8(value, name, i) for i, value in enumerate(array.ravel().tolist())]
    column = text_rows(tf.reshape(tf.constant(flat, tf.string), array.shape), name)
    if column.shape.rank == 0:
        raise ValueError(
            f"`{name}` must be a list of strings. Received: a single string. Wrap it "
            "in a list."
        )
    return column


def text_list(values: Any, name: str) -> list[str]:
    """Returns strings as Python's, from whatever `text_column` takes.

    Raises:
        ValueError: for another rank, or naming the first row that is no string.
    """
    column = text_column(values, name).numpy()
    return [value.decode("utf-8", "ignore") for value in column.tolist()]


def structure_rows(values: Any) -> Any:
    """Returns every leaf of tuples and dicts as an array; None stays.

    Raises:
        ValueError: if a leaf's rows differ in length.
    """
    if values is None or isinstance(values, (tf.Tensor, tf.RaggedTensor)):
        return values
    if isinstance(values, tuple):
        return tuple(structure_rows(value) for value in values)
    if isinstance(values, Mapping):
        return {name: structure_rows(value) for name, value in values.items()}
    return _array(values, "the data")


def row_weights(values: Any) -> Any:
    """Returns the weights of rows as numbers, float32 (B,) or as they are given.

    Args:
        values: numbers (B,) or (B, 1); a structure of such for several outputs; None.

    Raises:
        ValueError: naming the first row that is no finite number.
    """
    weights = structure_rows(values)
    if weights is None or isinstance(weights, (dict, tuple)) or tf.is_tensor(weights):
        return weights
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    numbers = weights if weights.dtype.kind in "fiub" else None
    if numbers is None or not np.isfinite(numbers).all():
        wrong = [
            i
            for i, value in enumerate(weights.ravel().tolist())
            if not isinstance(value, (int, float)) or not np.isfinite(value)
        ]
        row = wrong[0] if wrong else 0
        raise ValueError(
            "`sample_weight` must hold finite numbers. Received: "
            f"{weights.ravel().tolist()[row]!r:.60} in row {row}"
        )
    return weights.astype("float32")


def number_of_rows(**parts: Any) -> int:
    """Returns the one number of rows that all parts have.

    Raises:
        ValueError: if they differ, or a part has no rows to count.
    """
    counts: dict[str, list[int]] = {}
    for part, values in parts.items():
        for leaf in tf.nest.flatten(values):
            if leaf is None:
                continue
            if len(leaf.shape) == 0:
                raise ValueError(f"`{part}` must have rows. Received: a single value")
            counts.setdefault(part, []).append(int(leaf.shape[0]))
    different = {count for leaves in counts.values() for count in leaves}
    if len(different) > 1:
        shown = {name: c[0] if len(c) == 1 else c for name, c in counts.items()}
        raise ValueError(
            "`x`, `y` and `sample_weight`, and all parts of each, must have the same "
            f"number of rows. Received: {shown}"
        )
    return different.pop() if different else 0


def row_batches(
    inputs: Any, rows: int, batch_size: int | None, shuffle: bool | str
) -> tf.data.Dataset:
    """Returns batches of rows, in another order in every epoch if asked for.

    Args:
        inputs: a structure of tensors or arrays with `rows` rows each.
        rows: their number.
        batch_size: rows of a batch; None for `BATCH_SIZE`.
        shuffle: True for rows in random order, "batch" for whole batches in random
            order. The seed comes from Python's generator, which
            `keras.utils.set_random_seed` seeds.

    Raises:
        ValueError: for another `shuffle`, or a batch size below 1.
    """
    size = BATCH_SIZE
    if batch_size is not None:
        (size,) = positive_integers(batch_size=batch_size)
    if shuffle not in (True, False, "batch"):
        raise ValueError(
            f"`shuffle` must be True, False or 'batch'. Received: shuffle={shuffle!r}"
        )
    order = tf.data.Dataset.range(rows)
    if shuffle is True:
        order = order.shuffle(rows, seed=random.randrange(2**31))
    batches = order.batch(size)
    if shuffle == "batch":
        batches = batches.shuffle(-(-rows // size), seed=random.randrange(2**31))
    with tf.device("cpu"):
        tensors = tf.nest.map_structure(_tensor, inputs)
    return batches.map(
        lambda index: tf.nest.map_structure(
            lambda leaf: tf.gather(leaf, index), tensors
        )
    )


def split_rows(parts: Any, rows: int, fraction: float) -> tuple[Any, int, Any]:
    """Divides rows as Keras does: the last `fraction` of them validates.

    Returns:
        The first part, its number of rows, the second part.

    Raises:
        ValueError: if one of the two would be empty.
    """
    is_number = isinstance(fraction, (int, float, np.floating))
    at = int(rows * (1.0 - fraction)) if is_number else 0
    if not 0 < at < rows:
        raise ValueError(
            "`validation_split` must leave rows to train on and to validate with. "
            f"Received: validation_split={fraction!r} of {rows} rows"
        )

    def take(part: slice) -> Any:
        return tf.nest.map_structure(
            lambda leaf: None if leaf is None else leaf[part], parts
        )

    return take(slice(None, at)), at, take(slice(at, None))


def _array(values: Any, name: str, dtype: Any = None) -> np.ndarray[Any, Any]:
    if not hasattr(values, "__array__"):
        if isinstance(values, (set, frozenset)) or not isinstance(values, Iterable):
            raise ValueError(
                f"`{name}` must be rows in an order, such as a list or an array. "
                f"Received: {values!r:.80} ({type(values).__name__})"
            )
        values = list(values)
    try:
        array = np.asarray(values, dtype)
    except ValueError:
        raise ValueError(
            f"`{name}` must have rows of equal length. Received: rows of several "
            "lengths. Pairs are given as a tuple of two batches, (first, second)."
        ) from None
    return array


def _utf8(value: Any, name: str, index: int) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "ignore")
    if isinstance(value, bytes):
        return value
    if isinstance(value, (list, tuple, np.ndarray)):
        raise ValueError(
            f"`{name}` must have rows of equal length. Received: {value!r:.80} in row "
            f"{index}. Pairs are given as a tuple of two batches, (first, second)."
        )
    raise ValueError(
        f"`{name}` must be strings. Received: {value!r:.80} "
        f"({type(value).__name__}) in row {index}"
    )


def _tensor(leaf: Any) -> Any:
    return None if leaf is None else tf.convert_to_tensor(leaf)
