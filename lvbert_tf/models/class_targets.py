"""Targets of a classifier: names and numbers to class indices, and what is neither."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def class_indices(y: Any, labels: Sequence[str] | None, num_classes: int) -> Any:
    """Returns the class index of each row, int32 (B,).

    Args:
        y: names or indices (B,) or (B, 1).
        labels: names of the classes in order; None where there are none.
        num_classes: number of classes C.

    Raises:
        ValueError: naming the first row that is no class, and what it holds; for
            targets of more columns.
    """
    # As objects: numpy would write a NaN among names as the name "nan".
    array = np.asarray(y) if hasattr(y, "__array__") else np.asarray(list(y), object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            "`y` must hold one class a row, (B,) or (B, 1); rows of numbers for each "
            "class need a loss that takes them, such as 'categorical_crossentropy'. "
            f"Received: y of shape {array.shape}"
        )
    if array.dtype.kind not in "OSUT":
        return _checked(array.tolist(), num_classes)
    places = {name: index for index, name in enumerate(labels or ())}
    indices: list[Any] = []
    for row, value in enumerate(array.tolist()):
        name = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if not isinstance(name, str):
            indices.append(name)
        elif labels is None:
            raise ValueError(
                f"`y` holds names ({name!r:.60} in row {row}), and this classifier has "
                "none: give it `labels=[...]`, or give class indices. Received: "
                "labels=None"
            )
        elif name not in places:
            raise ValueError(
                f"`y` must hold labels of {list(labels)}. Received: {name!r:.60} in "
                f"row {row}"
            )
        else:
            indices.append(places[name])
    return _checked(indices, num_classes)


def class_indices_in_graph(
    y: tf.Tensor, labels: Sequence[str] | None, num_classes: int
) -> tf.Tensor:
    """Does what `class_indices` does to the targets of a dataset's batch.

    Raises:
        ValueError: for names where there are no `labels`.
        InvalidArgumentError: (a TensorFlow error) for values that are no class.
    """
    if y.dtype == tf.string:
        if labels is None:
            raise ValueError(
                "`y` holds names, and this classifier has none: give it `labels=[...]`,"
                " or give class indices. Received: labels=None"
            )
        hits = tf.equal(y[..., tf.newaxis], tf.constant(list(labels)))
        known = tf.reduce_any(hits, axis=-1)
        indices = tf.argmax(hits, axis=-1, output_type=tf.int32)
        expected = f"labels of {list(labels)}"
    else:
        indices = tf.cast(y, tf.int32)
        known = (indices >= 0) & (indices < num_classes)
        known &= tf.equal(tf.cast(indices, y.dtype), y)
        expected = f"class indices from 0 to {num_classes - 1}"
    check = tf.debugging.Assert(
        tf.reduce_all(known),
        [f"`y` must hold {expected}. Received:", tf.boolean_mask(y, ~known)],
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(indices)


def class_weights(
    weights: Mapping[Any, float], labels: Sequence[str] | None, num_classes: int
) -> dict[int, float]:
    """Returns the weight of every class; one that is left out weighs 1.

    Args:
        weights: by class index, or by name where there are `labels`.
        labels: names of the classes.
        num_classes: number of classes.

    Raises:
        ValueError: for a key that is no class.
    """
    if not isinstance(weights, Mapping):
        raise ValueError(
            "`class_weight` must be a dict of class to weight. Received: "
            f"class_weight={weights!r:.80}"
        )
    places = {name: index for index, name in enumerate(labels or ())}
    full = dict.fromkeys(range(num_classes), 1.0)
    for key, weight in weights.items():
        index = places.get(key, key)
        if index not in full:
            raise ValueError(
                "`class_weight` must have classes as keys: indices from 0 to "
                f"{num_classes - 1}{f' or {list(labels)}' if labels else ''}. "
                f"Received: {key!r}"
            )
        full[int(index)] = float(weight)
    return full


def numbers(y: Any) -> Any:
    """Returns the targets of a regression, float32 (B,) or (B, 1).

    Raises:
        ValueError: naming the first row that is no finite number.
    """
    array = np.asarray(y)
    if array.dtype.kind not in "fiub":
        bad = next(
            (i for i, v in enumerate(array.ravel()) if not isinstance(v, (int, float))),
            0,
        )
    else:
        wrong = np.flatnonzero(~np.isfinite(array.astype("float64").ravel()))
        if not len(wrong):
            return array.astype("float32")
        bad = int(wrong[0])
    raise ValueError(
        "`y` of a regression must hold finite numbers. Received: "
        f"{array.ravel().tolist()[bad]!r:.60} in row {bad}"
    )


def _checked(values: list[Any], num_classes: int) -> np.ndarray[Any, Any]:
    for row, value in enumerate(values):
        if value not in range(num_classes):  # 1.0 is 1; 1.5, NaN and None are not
            raise ValueError(
                f"`y` must hold class indices from 0 to {num_classes - 1}. Received: "
                f"{value!r:.60} in row {row}"
            )
    return np.array([int(value) for value in values], "int32")
