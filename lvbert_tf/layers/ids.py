"""Ids are integers; what isn't must not be cut to one silently."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras.src.backend.common.symbolic_scope import in_symbolic_scope


def check_ids(name: str, ids: Any) -> None:
    """Refuses ids that are no integers, whatever their values.

    Args:
        name: the input's name, for the message.
        ids: a tensor, an array, or nested lists. Anything else, and symbolic tensors,
            are let through: they hold no values to cut.

    Raises:
        ValueError: for floating-point, bool or other dtypes.
    """
    if isinstance(ids, keras.KerasTensor) or in_symbolic_scope():
        # For a batch of several devices Keras builds the model with the dtype of a
        # mean over them, float64; ids hold no values then.
        return
    dtype = getattr(ids, "dtype", None)
    if dtype is None:
        # What a strategy hands out for several devices has no dtype of its own.
        if not isinstance(ids, (list, tuple)):
            return
        dtype = np.asarray(ids).dtype
    dtype = keras.backend.standardize_dtype(dtype)
    if "int" not in dtype:
        raise ValueError(f"`{name}` must be integers. Received: dtype {dtype}")


def check_ids_of(inputs: Any) -> None:
    """Refuses a model's inputs if ids among them are no integers.

    Functional models cut their inputs to the dtype of the graph, so that the check
    must come before.

    Args:
        inputs: a dict of a backbone's or task's inputs; anything else is let through.

    Raises:
        ValueError: naming the input.
    """
    if isinstance(inputs, Mapping):
        for name in ("token_ids", "segment_ids", "mask_positions"):
            if name in inputs:
                check_ids(name, inputs[name])


def check_id_values(inputs: Any, vocabulary_size: int) -> None:
    """Refuses token ids that no row of the token table stands for.

    Args:
        inputs: a dict of arrays with `token_ids`; anything else is let through.
        vocabulary_size: rows V of the table.

    Raises:
        ValueError: naming the first row, and the id.
    """
    if not isinstance(inputs, Mapping) or "token_ids" not in inputs:
        return
    ids = np.asarray(inputs["token_ids"])
    wrong = np.argwhere((ids < 0) | (ids >= vocabulary_size))
    if len(wrong):
        place = tuple(int(axis) for axis in wrong[0])
        raise ValueError(
            f"`token_ids` must be from 0 to {vocabulary_size - 1}. Received: "
            f"{ids[place]} in row {place[0]}"
        )
