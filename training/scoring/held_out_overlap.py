"""Does a held-out set share documents with what a supernet was trained on?

`prepare` keeps the documents of the two splits apart, so a search over the supernet's
own data directory is safe. For another directory it is looked at: every held-out
document is a set of windows of tokens, and one of which a good part stands somewhere in
the training examples was trained on, however it was cut into examples there.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from common.command_line import UsageError
from lvbert_tf.vocabulary import SpecialTokens
from training.data.manifest import DataManifest
from training.data.verification import ensure_verified

MAX_WINDOW = 24
"""Tokens that must be the same in a row to count as shared text; about a third of an
example where examples are short: any cut of a text leaves so many together."""

MAX_SHARE = 0.01
"""Share of the held-out documents that may be in the training set by chance."""

TRAINED_ON = 0.25
"""Share of a document's windows that must be found. Of a document that was trained on,
cut at other places, about half are found or more; of another one, its quotations."""

COMMON = 5
"""A window in so many places of the training set (or in two held-out documents) is a
licence, a greeting, a heading: it doesn't tell documents apart."""

OWN = 0.25
"""Share of a document's windows that must be no common text for it to be compared."""

MOST_EXAMPLES = 50_000
"""Held-out examples that are looked at; they are in random order."""

SHORT_WINDOW = 5
"""The same for documents shorter than two windows: one cut may take all longer runs."""

_SHORT = np.uint64(0x5348)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_READ_AT_ONCE = 4096


def check_held_out(data_dir: str, trained_on: str, identity: dict[str, str]) -> None:
    """Refuses a held-out set that shares documents with a training set.

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
        train_sha256 = _split_sha256(theirs, "train")
    except UsageError as error:
        raise UsageError(
            f"--data {data_dir}: is not the data that the supernet was trained on, and "
            f"that is no longer at {trained_on}: cannot rule out that the held-out set "
            "shares text with it"
        ) from error
    if train_sha256 != identity["train_sha256"]:
        raise UsageError(
            f"--data {data_dir}: cannot rule out that the held-out set shares text "
            f"with the supernet's training data: what is at {trained_on} now is "
            f"another data set (sha256 {train_sha256[:12]}, expected "
            f"{identity['train_sha256'][:12]})"
        )
    ensure_verified(trained_on, "train")
    shared, compared, documents = count_shared(ours, theirs)
    if compared < documents / 2:
        print(
            f"warning: --data {data_dir}: only {compared} of {documents} held-out "
            "documents have text of their own that can be looked for in the "
            "supernet's training data; the others are made of common text",
            file=sys.stderr,
        )
    if shared > MAX_SHARE * documents:
        raise UsageError(
            f"--data {data_dir}: its held-out set overlaps with the supernet's "
            f"training data: {shared} of {documents} documents are in {trained_on}, "
            f"by runs of {window_length(ours, theirs)} tokens. Expected at most "
            f"{MAX_SHARE:.0%}"
        )


def window_length(held_out: DataManifest, training: DataManifest) -> int:
    """Returns how many tokens in a row are compared."""
    shorter = min(held_out.sequence_length, training.sequence_length)
    # Of the text, a third: two cuts in the middle of it leave half, window by window
    return max(2, min(MAX_WINDOW, (shorter - 3) // 3 + 1))


def count_shared(
    held_out: DataManifest, training: DataManifest
) -> tuple[int, int, int]:
    """Returns how many held-out documents stand in a training set.

    Args:
        held_out: whose held-out split is looked at.
        training: whose training split is searched.

    Returns:
        The number of documents that were trained on, of those that have windows of
        their own, and of all that were looked at. Where the records don't say which
        document they are of (`--official`, `--join-documents`), each counts as one.
    """
    window = window_length(held_out, training)
    owners, hashes = _held_out_windows(held_out, window)
    documents = len(np.unique(owners))
    pairs = np.unique(np.stack([hashes, owners]), axis=1)
    wanted, inverse, holders = np.unique(
        pairs[0], return_inverse=True, return_counts=True
    )
    places = np.zeros(len(wanted), np.int64)
    for tokens, lengths, _ in _examples(training, "train"):
        if not len(wanted):
            break
        hashes_of_split, _, _ = text_hashes(tokens, lengths, window)
        where = np.minimum(np.searchsorted(wanted, hashes_of_split), len(wanted) - 1)
        where = where[wanted[where] == hashes_of_split]
        places += np.bincount(where, minlength=len(wanted))
    own = ((holders == 1) & (places < COMMON))[inverse]
    present = (places > 0)[inverse]
    _, document_index = np.unique(pairs[1], return_inverse=True)
    # A document of which hardly anything is its own can't be told from others.
    windows = np.bincount(document_index[own], minlength=documents)
    windows[windows < OWN * np.bincount(document_index, minlength=documents)] = 0
    matches = np.bincount(document_index[own & present], minlength=documents)
    shared = (windows > 0) & (matches >= TRAINED_ON * windows)
    return int(shared.sum()), int((windows > 0).sum()), documents


def text_hashes(
    tokens: NDArray[np.int64], lengths: NDArray[np.int64], window: int
) -> tuple[NDArray[np.uint64], NDArray[np.intp], int]:
    """Returns hashes of the windows within examples, their examples, how many are long.

    First come those of `window` tokens, then those of `SHORT_WINDOW`; a text that is
    shorter still is one of the latter as a whole.

    Args:
        tokens: int64 (N,), the examples' texts, one behind the other.
        lengths: int64 (E,), their lengths.
        window: tokens in a row.
    """
    ends = np.cumsum(lengths)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    left = ends[owners] - np.arange(len(tokens))
    starts = np.flatnonzero(left >= window)
    small = min(window, SHORT_WINDOW)
    short_starts = np.flatnonzero(left >= small)
    short = np.flatnonzero((lengths < small) & (lengths > 0))
    offsets = np.arange(small)
    inside = offsets < lengths[short, np.newaxis]
    places = (ends - lengths)[short, np.newaxis] + offsets
    padded = np.where(inside, tokens[np.where(inside, places, 0)], -1)
    return (
        np.concatenate(
            [
                window_hashes(tokens, window)[starts],
                window_hashes(tokens, small)[short_starts] ^ _SHORT,
                window_hashes(padded.ravel(), small)[::small] ^ _SHORT,
            ]
        ),
        np.concatenate([owners[starts], owners[short_starts], short]),
        len(starts),
    )


def window_hashes(tokens: NDArray[np.int64], window: int) -> NDArray[np.uint64]:
    """Returns a hash of the `window` tokens from each place on: (N - window + 1,)."""
    count = max(0, len(tokens) - window + 1)
    values = tokens.astype(np.uint64) + np.uint64(1)
    hashes = np.zeros(count, np.uint64)
    for offset in range(window):
        hashes = hashes * _BASE + values[offset : offset + count]
    mixed: NDArray[np.uint64] = (hashes ^ (hashes >> np.uint64(29))) * _BASE
    return mixed


def _held_out_windows(
    manifest: DataManifest, window: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Returns for each window of the held-out split its document and its hash."""
    owners, hashes, long_ones, sizes, seen = [], [], [], [], 0
    for tokens, lengths, documents in _examples(manifest, "held_out"):
        hashes_of_split, examples, long = text_hashes(tokens, lengths, window)
        numbers = np.arange(seen, seen + len(lengths))
        # Odd numbers for unknown documents; a known one has an even number
        ids = np.where(documents < 0, 2 * numbers + 1, 2 * documents).astype(np.uint64)
        owners.append(ids[examples])
        hashes.append(hashes_of_split)
        long_ones.append(np.arange(len(hashes_of_split)) < long)
        sizes.append((ids, lengths))
        seen += len(lengths)
        if seen >= MOST_EXAMPLES:
            break
    if not owners:
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    known, inverse = np.unique(
        np.concatenate([ids for ids, _ in sizes]), return_inverse=True
    )
    tokens_of = np.bincount(inverse, np.concatenate([one for _, one in sizes]))
    owner = np.concatenate(owners)
    # Short documents have few long windows or none, and one cut may take all of them.
    is_long = tokens_of[np.searchsorted(known, owner)] >= 2 * window
    kept = is_long == np.concatenate(long_ones)
    return owner[kept], np.concatenate(hashes)[kept]


def _examples(
    manifest: DataManifest, split: str
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yields the texts of many examples, their lengths and documents (-1: unknown).

    Both segments of an example are one stretch of text, so [SEP] is left out.
    """
    files = [str(manifest.directory / shard.file) for shard in manifest.split(split)]
    features = {
        "token_ids": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        "document": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
    }

    def parse(records: Any) -> Any:
        parsed = tf.io.parse_example(records, features)
        ids = parsed["token_ids"]
        return ids.flat_values, ids.row_lengths(), parsed["document"]

    special = SpecialTokens.from_vocabulary(manifest.vocabulary())
    dataset = tf.data.TFRecordDataset(files).batch(_READ_AT_ONCE).map(parse).prefetch(2)
    for tokens, lengths, documents in dataset.as_numpy_iterator():
        text = (tokens != special.cls) & (tokens != special.sep)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        kept = np.bincount(owners[text], minlength=len(lengths))
        yield tokens[text], kept, documents


def _split_sha256(manifest: DataManifest, split: str) -> str:
    """The hash of a split as `training.loop.batches.data_identity` computes it."""
    hashes: Sequence[str] = [shard.sha256 for shard in manifest.split(split)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
