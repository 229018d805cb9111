"""Sums over neighbouring tokens, arranged as matrix products of blocks of tokens.

The textbook form of a convolution with a kernel for each token copies the values K
times and multiplies many tiny matrices. Here a block of S tokens becomes one banded
S x (S + K - 1) matrix for each head, and one matrix product does the rest. The cost
for each token does not depend on the length of the sequence.
"""

from typing import Any

from keras import ops

BLOCK_TOKENS = 32
"""Tokens S of a block; see `benchmarks/dynamic_conv.py` for the choice."""


def mix_neighbours(kernels: Any, values: Any) -> Any:
    """Mixes every token's neighbours with its own kernels, head by head.

    `out[b, t, n] = sum_k kernels[b, t, n, k] * values[b, t + k - K // 2, n]`, where
    values beyond either end count as zero (cross-correlation, "same" padding).

    Args:
        kernels: (B, T, N, K), K odd.
        values: (B, T, H), N divides H; the heads are N runs of H / N columns.

    Returns:
        (B, T, H), in the dtype of the arguments.
    """
    batch, tokens = ops.shape(values)[0], ops.shape(values)[1]
    heads, kernel_size, hidden = kernels.shape[2], kernels.shape[3], values.shape[2]
    block = max(BLOCK_TOKENS, kernel_size - 1)
    blocks = (tokens + block - 1) // block
    padding = blocks * block - tokens
    window = block + kernel_size - 1

    kernels = ops.pad(kernels, ((0, 0), (0, padding), (0, 0), (0, 0)))
    kernels = ops.reshape(kernels, (batch, blocks, block, heads, kernel_size))
    kernels = ops.transpose(kernels, (0, 1, 3, 2, 4))  # (B, blocks, N, S, K)
    bands = _skew(kernels, block, kernel_size)  # (B, blocks, N, S, S + K - 1)

    windows = _windows(values, blocks, block, kernel_size)  # (B, blocks, S + K - 1, H)
    windows = ops.reshape(windows, (batch, blocks, window, heads, hidden // heads))
    windows = ops.transpose(windows, (0, 1, 3, 2, 4))  # (B, blocks, N, S + K - 1, D)

    mixed = ops.matmul(bands, windows)  # (B, blocks, N, S, D)
    mixed = ops.transpose(mixed, (0, 1, 3, 2, 4))
    mixed = ops.reshape(mixed, (batch, blocks * block, hidden))
    return _leading(mixed, 1, tokens)


def depthwise_over_tokens(values: Any, kernel: Any) -> Any:
    """Convolves every column along the tokens with its own fixed kernel.

    Args:
        values: (B, T, H).
        kernel: (K, H), K odd.

    Returns:
        (B, T, H): `out[b, t, h] = sum_k kernel[k, h] * values[b, t + k - K // 2, h]`
        with zeros beyond either end.
    """
    kernel = ops.cast(kernel, values.dtype)
    return ops.depthwise_conv(values, kernel[:, :, None], strides=1, padding="same")


def _skew(kernels: Any, block: int, kernel_size: int) -> Any:
    """Shifts row i of (..., S, K) to the right by i: (..., S, S + K - 1).

    Padding each row with S zeros and reading the same numbers with one column less
    moves every row one further than the row above it.
    """
    lead = tuple(ops.shape(kernels)[:3])
    width = block + kernel_size
    padded = ops.pad(kernels, ((0, 0),) * 4 + ((0, block),))
    flat = ops.reshape(padded, (*lead, block * width))
    kept = _leading(flat, 3, block * (width - 1))
    return ops.reshape(kept, (*lead, block, width - 1))


def _windows(values: Any, blocks: Any, block: int, kernel_size: int) -> Any:
    """Cuts (B, T, H) into overlapping windows (B, blocks, S + K - 1, H)."""
    batch, tokens, hidden = ops.shape(values)[0], ops.shape(values)[1], values.shape[2]
    before = kernel_size // 2
    after = (blocks + 1) * block - tokens - before
    padded = ops.pad(values, ((0, 0), (before, after), (0, 0)))
    pieces = ops.reshape(padded, (batch, blocks + 1, block, hidden))
    following = ops.slice(
        pieces, (0, 1, 0, 0), (batch, blocks, kernel_size - 1, hidden)
    )
    return ops.concatenate([_leading(pieces, 1, blocks), following], axis=2)


def _leading(x: Any, axis: int, count: Any) -> Any:
    """Returns the first `count` entries along an axis.

    The gradient of a slice is a padding; that of Python's indexing is an operation
    that TensorFlow runs many times slower.
    """
    shape = list(ops.shape(x))
    shape[axis] = count
    return ops.slice(x, (0,) * len(shape), shape)
