"""How often each token stands in the training split: the baseline of every loss.

`prepare` stores the counts beside the records; `unigram_losses` are what a model that
knows nothing but them pays for each token.
"""

import hashlib
import io
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

TOKEN_COUNTS_FILE = "token_counts.npy"


def token_counts_bytes(counts: NDArray[np.int64]) -> bytes:
    """Returns counts as the content of a `.npy` file."""
    stream = io.BytesIO()
    np.save(stream, counts, allow_pickle=False)
    return stream.getvalue()


def read_token_counts(
    content: bytes, vocabulary_size: int, sha256: str
) -> NDArray[np.int64]:
    """Returns the counts in the content of a `.npy` file: int64 (V,).

    Args:
        content: of the file.
        vocabulary_size: V.
        sha256: that the content must have.

    Raises:
        ValueError: if it is another content, or of another type or shape.
    """
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise ValueError(f"expected sha256 {sha256[:12]}, found {actual[:12]}")
    counts: NDArray[np.int64] = np.load(io.BytesIO(content), allow_pickle=False)
    if counts.shape != (vocabulary_size,) or counts.dtype != np.int64:
        raise ValueError(
            f"expected int64 counts of shape ({vocabulary_size},), "
            f"found {counts.dtype} of shape {counts.shape}"
        )
    return counts


def unigram_losses(
    counts: NDArray[np.int64], never_predicted: Collection[int]
) -> NDArray[np.float64]:
    """Returns the cross-entropy of each token under smoothed frequencies, in nats.

    Add-one smoothing over the vocabulary without the tokens that are never predicted:
    `-log((count + 1) / sum of (count + 1))`.

    Args:
        counts: (V,), of each id.
        never_predicted: ids of special tokens.

    Returns:
        float64 (V,); infinite for `never_predicted`.
    """
    smoothed = counts.astype(np.float64) + 1.0
    smoothed[list(never_predicted)] = 0.0
    with np.errstate(divide="ignore"):
        losses: NDArray[np.float64] = -np.log(smoothed / smoothed.sum())
    return losses
