"""Encodes examples as serialised tf.train.Example messages, many at once, in numpy.

Building `tf.train.Example` objects one by one costs more than all the rest of data
preparation together, tokenization included. The bytes here are the ones that their
`SerializeToString(deterministic=True)` gives.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Layout:
    """Examples with their special tokens, one behind the other.

    Attributes:
        token_ids: int32 (sum of lengths,).
        lengths: int64 (E,) number of tokens of each of the E examples.
        first_lengths: int64 (E,) how many of them are in the first segment.
    """

    token_ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]
    first_lengths: npt.NDArray[np.int64]


def lay_out(
    tokens: IntArray, spans: npt.NDArray[np.int64], cls_id: int, sep_id: int
) -> Layout:
    """Adds the special tokens to examples: [CLS] A [SEP], then B [SEP] if there is B.

    Args:
        tokens: int (N,) ids of a text.
        spans: int (E, 3), start, middle and end of each example in `tokens`; they
            must follow each other without gaps and cover all N.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
    """
    start, middle, end = spans.T
    first, second = middle - start, end - middle
    paired = second > 0
    lengths = first + 2 + np.where(paired, second + 1, 0)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    token_ids = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
    token_ids[begins] = cls_id
    token_ids[begins + first + 1] = sep_id
    token_ids[ends - 1] = sep_id
    # How far each token moves: alternately those of an A and those of a B.
    shifts = np.stack([begins + 1 - start, begins + first + 2 - middle], axis=1)
    counts = np.stack([first, second], axis=1)
    where = np.repeat(shifts.ravel(), counts.ravel())
    where += np.arange(len(where))
    token_ids[where] = tokens
    return Layout(token_ids, lengths, first + 2)


def encode_examples(
    layout: Layout, documents: npt.NDArray[np.uint64] | None = None
) -> list[bytes]:
    """Returns one serialised tf.train.Example for each example of `layout`.

    Args:
        layout: the examples.
        documents: uint64 (E,), the hash of the document that each is of; given, half
            of it (so that it is no negative int64) is stored as `document`.
    """
    if documents is not None:
        return [
            _with_document(record, hashed >> 1)
            for record, hashed in zip(
                encode_examples(layout), documents.tolist(), strict=True
            )
        ]
    encoded, offsets = _varints(layout.token_ids)
    byte_stops = offsets[np.cumsum(layout.lengths)].tolist()
    byte_start = 0
    records = []
    lengths, first_lengths = layout.lengths.tolist(), layout.first_lengths.tolist()
    zeros, ones = bytes(max(lengths, default=0)), b"\1" * max(lengths, default=0)
    for length, first, byte_stop in zip(
        lengths, first_lengths, byte_stops, strict=True
    ):
        before_segments, before_tokens = _headers(length, byte_stop - byte_start)
        records.append(
            b"".join(
                (
                    before_segments,
                    zeros[:first],
                    ones[: length - first],
                    before_tokens,
                    encoded[byte_start:byte_stop],
                )
            )
        )
        byte_start = byte_stop
    return records


def _with_document(record: bytes, document: int) -> bytes:
    """Returns an Example with one feature more, which comes before the others."""
    start = 1
    while record[start] > 0x7F:  # the length of Example.features, a varint
        start += 1
    features = record[start + 1 :]
    values = _varint(document)
    added = _entry_header(b"document", len(values)) + values
    return _header(1, len(added) + len(features)) + added + features


def mix_keys(seed: int, stream: int, count: int) -> npt.NDArray[np.uint64]:
    """Returns `count` pseudo-random 64-bit keys, a function of seed and stream.

    The mixer is splitmix64, written out so that no library's release changes it.
    """
    mask = (1 << 64) - 1
    state = _splitmix(((seed & mask) * 0x9E3779B97F4A7C15 + stream) & mask)
    counter = np.arange(1, count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = counter * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        result: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


def _splitmix(value: int) -> int:
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def _varints(values: npt.NDArray[np.int32]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Encodes non-negative integers as protobuf varints.

    Returns:
        The bytes, and int64 (N + 1,): where each value starts, and where all end.
    """
    top = int(values.max(initial=0))
    # Sizes of tables are rounded up, so that few of them are made.
    words, masks, sizes = _varint_table(1 << top.bit_length())
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(sizes[values], out=offsets[1:])
    # Whole words are looked up, then their unused bytes dropped: looking up rows of
    # bytes takes several times as long.
    used = masks[values].view(np.bool_)
    return words[values].view(np.uint8)[used].tobytes(), offsets


@functools.lru_cache(maxsize=4)
def _varint_table(
    count: int,
) -> tuple[IntArray, IntArray, npt.NDArray[np.uint8]]:
    """Returns the varints of 0, 1, … as words, which of their bytes are used, sizes."""
    width = -(-max(1, (count - 1).bit_length()) // 7)
    values = np.arange(count, dtype=np.int64)
    shifted = values[:, np.newaxis] >> (7 * np.arange(width + 1))
    more = shifted[:, 1:] > 0
    table, used = np.zeros((2, count, 4 if width <= 4 else 8), np.uint8)
    table[:, :width] = shifted[:, :-1] & 0x7F | more << 7
    used[:, :width] = shifted[:, :-1] > 0
    used[:, 0] = True
    sizes: npt.NDArray[np.uint8] = used.sum(axis=1, dtype=np.uint8)
    return _as_words(table), _as_words(used), sizes


def _as_words(rows: npt.NDArray[np.uint8]) -> IntArray:
    """Views rows of 4 or 8 bytes as one integer each."""
    if rows.shape[1] == 4:
        return rows.view(np.uint32)[:, 0]
    return rows.view(np.uint64)[:, 0]


@functools.lru_cache(maxsize=1 << 16)
def _headers(length: int, packed: int) -> tuple[bytes, bytes]:
    """Returns the bytes before the segment ids and those before the token ids.

    Args:
        length: number of tokens; a segment id takes one byte.
        packed: number of bytes of the token ids.
    """
    segments = _entry_header(b"segment_ids", length)
    tokens = _entry_header(b"token_ids", packed)
    total = len(segments) + length + len(tokens) + packed
    return _header(1, total) + segments, tokens


def _entry_header(name: bytes, packed: int) -> bytes:
    """Returns what precedes `packed` bytes of an entry of Features.feature."""
    key = _header(1, len(name)) + name
    values = _header(1, packed)  # Int64List.value
    int64_list = _header(3, len(values) + packed) + values  # Feature.int64_list
    feature = _header(2, len(int64_list) + packed) + int64_list
    return _header(1, len(key) + len(feature) + packed) + key + feature


def _header(field: int, size: int) -> bytes:
    """Returns the tag and length of a field that is a message, text or packed."""
    return bytes((field << 3 | 2,)) + _varint(size)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
