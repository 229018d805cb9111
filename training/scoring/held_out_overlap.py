"""Does a held-out set share text with what a supernet was trained on?

`prepare` keeps the documents of the two splits apart, so a search over the supernet's
own data directory is safe. For another directory it is looked at: of every held-out
example one window of tokens, the one with the smallest hash, is looked for at every
place of the training examples. That finds shared text however it was cut into examples.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from command_line import UsageError
from training.data.manifest import DataManifest
from training.data.verification import ensure_verified

MAX_WINDOW = 24
"""Tokens that must be the same in a row to count as shared text; half an example where
examples are shorter than twice that."""

MAX_SHARE = 0.01
"""Share of the held-out examples that may have such a window in the training set by
chance: licences, greetings, quotations."""

_BASE = np.uint64(0x9E3779B97F4A7C15)
_READ_AT_ONCE = 4096


def check_held_out(data_dir: str, trained_on: str, identity: dict[str, str]) -> None:
    """Refuses a held-out set that shares text with a training set.

    Args:
        data_dir: the directory whose held-out part is to score.
        trained_on: the directory that the supernet was trained on.
        identity: hashes of what the supernet was trained on, as `data_identity` gives.

    Raises:
        UsageError: if they overlap, or the training data is not there to compare.
        CommandError: if the training data is damaged.
    """
    ours = DataManifest.load(data_dir)
    hashes = {split: _split_sha256(ours, split) for split in ("train", "held_out")}
    if all(hashes[split] == identity[f"{split}_sha256"] for split in hashes):
        return  # the same directory, whose documents `prepare` has kept apart
    try:
        theirs = DataManifest.load(trained_on)
        found = _split_sha256(theirs, "train")
    except UsageError as error:
        raise UsageError(
            f"--data {data_dir}: is not the data that the supernet was trained on, and "
            f"that is no longer at {trained_on}: cannot rule out that the held-out set "
            "shares text with it"
        ) from error
    if found != identity["train_sha256"]:
        raise UsageError(
            f"--data {data_dir}: cannot rule out that the held-out set shares text "
            f"with the supernet's training data: what is at {trained_on} now is "
            f"another data set (sha256 {found[:12]}, expected "
            f"{identity['train_sha256'][:12]})"
        )
    ensure_verified(trained_on, "train")
    window = min(MAX_WINDOW, ours.sequence_length // 2)
    shared, compared = count_shared(ours, theirs, window)
    if shared > MAX_SHARE * compared:
        raise UsageError(
            f"--data {data_dir}: its held-out set overlaps with the supernet's "
            f"training data: {shared} of {compared} examples share {window} tokens "
            f"in a row with {trained_on}. Expected at most {MAX_SHARE:.0%}"
        )


def count_shared(
    held_out: DataManifest, training: DataManifest, window: int
) -> tuple[int, int]:
    """Returns how many held-out examples share text with a training set.

    Args:
        held_out: whose held-out split is looked at.
        training: whose training split is searched.
        window: tokens in a row; shorter examples are not compared.

    Returns:
        The number of examples that share text, and of those that were compared.
    """
    anchors: list[int] = []
    for tokens, lengths in _examples(held_out, "held_out"):
        hashes = window_hashes(tokens, window)
        starts = np.cumsum(lengths) - lengths
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            # Without the special tokens at both ends
            if length - 2 >= window:
                own = hashes[start + 1 : start + length - window]
                anchors.append(int(own.min()))
    wanted = np.unique(np.array(anchors, np.uint64))
    seen = np.zeros(len(wanted), bool)
    for tokens, _ in _examples(training, "train"):
        if not len(wanted):
            break
        hashes = window_hashes(tokens, window)
        places = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        seen[places[wanted[places] == hashes]] = True
    shared = set(wanted[seen].tolist())
    return sum(anchor in shared for anchor in anchors), len(anchors)


def window_hashes(tokens: NDArray[np.int64], window: int) -> NDArray[np.uint64]:
    """Returns a hash of the `window` tokens from each place on: (N - window + 1,)."""
    count = max(0, len(tokens) - window + 1)
    values = tokens.astype(np.uint64) + np.uint64(1)
    hashes = np.zeros(count, np.uint64)
    for offset in range(window):
        hashes = hashes * _BASE + values[offset : offset + count]
    mixed: NDArray[np.uint64] = (hashes ^ (hashes >> np.uint64(29))) * _BASE
    return mixed


def _examples(
    manifest: DataManifest, split: str
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields the tokens of many examples, one behind the other, and their lengths."""
    files = [str(manifest.directory / shard.file) for shard in manifest.split(split)]
    feature = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)

    def parse(records: Any) -> Any:
        ids = tf.io.parse_example(records, {"token_ids": feature})["token_ids"]
        return ids.flat_values, ids.row_lengths()

    dataset = tf.data.TFRecordDataset(files).batch(_READ_AT_ONCE).map(parse).prefetch(2)
    yield from dataset.as_numpy_iterator()


def _split_sha256(manifest: DataManifest, split: str) -> str:
    """The hash of a split as `training.loop.batches.data_identity` computes it."""
    hashes: Sequence[str] = [shard.sha256 for shard in manifest.split(split)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
