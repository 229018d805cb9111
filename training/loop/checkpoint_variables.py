"""What a checkpoint holds of a model: every variable, by its path."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def by_path(variables: Iterable[Any]) -> tf.train.Checkpoint:
    """Returns a trackable object that holds Keras variables under their paths.

    `tf.train.Checkpoint(model=...)` finds variables through attributes, and in Keras 3
    it does not look into lists of layers: it would silently leave an encoder out.

    Args:
        variables: of a model or an optimizer, with paths that differ.

    Raises:
        ValueError: if two variables have the same path.
    """
    values: dict[str, Any] = {}
    for variable in variables:
        if variable.path in values:
            raise ValueError(f"Two variables have the path {variable.path}")
        values[variable.path] = variable.value
    return tf.train.Checkpoint(**values)
