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


def check_inputs(inputs: Any, backbone: Any) -> None:
    """Refuses a call's inputs by dtype, and by value where the values are at hand.

    In a traced function they are not; what is fed to one is checked before it.

    Args:
        inputs: a dict of a backbone's or task's inputs; anything else is let through.
        backbone: see `check_id_values`.

    Raises:
        ValueError: see `check_ids_of` and `check_id_values`.
    """
    check_ids_of(inputs)
    if isinstance(inputs, Mapping) and not in_symbolic_scope():
        names = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
        if all(_has_values(inputs[name]) for name in names if name in inputs):
            check_id_values(inputs, backbone)


def _has_values(array: Any) -> bool:
    if isinstance(array, (np.ndarray, list, tuple)):
        return True
    # An eager tensor; a symbolic one has no such method.
    return not isinstance(array, keras.KerasTensor) and hasattr(array, "numpy")


def check_id_values(inputs: Any, backbone: Any) -> None:
    """Refuses what no row of a backbone's tables stands for, and unequal shapes.

    Args:
        inputs: a dict of arrays with `token_ids`; anything else is let through.
        backbone: has `vocabulary_size`, `num_segments` and `max_sequence_length`.

    Raises:
        ValueError: naming the input, and the first row and value.
    """
    if not isinstance(inputs, Mapping) or "token_ids" not in inputs:
        return
    names = ("token_ids", "segment_ids", "padding_mask")
    arrays = {name: np.asarray(inputs[name]) for name in names if name in inputs}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or arrays["token_ids"].ndim != 2:
        raise ValueError(f"{names} must be of one shape (B, T). Received: {shapes}")
    tokens = arrays["token_ids"].shape[1]
    longest = backbone.max_sequence_length
    if tokens > longest:
        raise ValueError(
            f"`token_ids` must be of at most {longest} tokens, which the backbone has "
            f"positions for (max_sequence_length={longest}). Received: {tokens} tokens"
        )
    limits = {
        "token_ids": backbone.vocabulary_size,
        "segment_ids": backbone.num_segments,
        "padding_mask": 2,
        "mask_positions": tokens,
    }
    if "mask_positions" in inputs:
        arrays["mask_positions"] = np.asarray(inputs["mask_positions"])
    for name, array in arrays.items():
        wrong = np.argwhere((array < 0) | (array >= limits[name]))
        if len(wrong):
            place = tuple(int(axis) for axis in wrong[0])
            raise ValueError(
                f"`{name}` must be from 0 to {limits[name] - 1}. Received: "
                f"{array[place]} in row {place[0]}"
            )
