"""The initial values of the official implementation."""

import keras


def truncated_normal() -> keras.initializers.Initializer:
    """Returns the initialiser of most kernels and tables: within 2 x 0.02 of 0."""
    return keras.initializers.TruncatedNormal(stddev=0.02)
