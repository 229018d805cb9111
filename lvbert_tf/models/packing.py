"""Packs token ids of one or two segments into model inputs, with plain TF ops.

KerasHub's packer emits the op ``TFText>RoundRobinTrim``, which TF Serving images before
2.20 lack. The gathers below are in every image.
"""

import tensorflow as tf

PackedSegments = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def pack_segments(
    first: tf.Tensor | tf.RaggedTensor,
    second: tf.Tensor | tf.RaggedTensor | None = None,
    *,
    sequence_length: int | None,
    cls_token_id: int,
    sep_token_id: int,
    pad_token_id: int,
    max_sequence_length: int | None = None,
) -> PackedSegments:
    """Lays out ``[CLS] first [SEP]`` or ``[CLS] first [SEP] second [SEP]``.

    Segments that do not fit are cut at their ends, the longer of the two first (on
    equal lengths the second), as in the official code.

    Args:
        first: ragged int (B, None), dense int (B, S) of rows of equal length, or int
            (S,) for one unbatched example.
        second: the same for the second segment, or None.
        sequence_length: T, the width of the result; None takes the longest example of
            the batch, which `max_sequence_length` then must limit.
        cls_token_id: id of [CLS].
        sep_token_id: id of [SEP].
        pad_token_id: id of [PAD].
        max_sequence_length: greatest T when `sequence_length` is None.

    Returns:
        `token_ids`, `segment_ids` (1 for the second segment and its [SEP], 0 elsewhere)
        and `padding_mask` (1 for real tokens), each int32 (B, T), or (T,) unbatched.
    """
    limit = max_sequence_length if sequence_length is None else sequence_length
    specials = 2 if second is None else 3
    if limit is None or limit < specials:
        raise ValueError(
            "`sequence_length`, or `max_sequence_length` where that is None, must "
            f"leave room for {specials} special tokens. Received: "
            f"sequence_length={sequence_length}, "
            f"max_sequence_length={max_sequence_length}."
        )
    if not isinstance(first, tf.RaggedTensor) and first.shape.rank == 1:
        packed = pack_segments(
            first[tf.newaxis],
            None if second is None else second[tf.newaxis],
            sequence_length=sequence_length,
            cls_token_id=cls_token_id,
            sep_token_id=sep_token_id,
            pad_token_id=pad_token_id,
            max_sequence_length=max_sequence_length,
        )
        return packed[0][0], packed[1][0], packed[2][0]
    first, second = _ragged(first), None if second is None else _ragged(second)

    budget = limit - specials
    first_lengths = _row_lengths(first)
    if second is None:
        kept_first = tf.minimum(first_lengths, budget)
        first_end = kept_first + 1  # position of the [SEP] behind it
        last = first_end  # (B, 1)
    else:
        second_lengths = _row_lengths(second)
        kept_first = tf.minimum(
            first_lengths, tf.maximum((budget + 1) // 2, budget - second_lengths)
        )
        kept_second = tf.minimum(second_lengths, budget - kept_first)
        first_end = kept_first + 1
        last = first_end + kept_second + 1

    width = (
        tf.constant(limit, tf.int32)
        if sequence_length is not None
        else tf.maximum(tf.reduce_max(last) + 1, specials)
    )
    position = tf.range(width, dtype=tf.int32)[tf.newaxis]  # (1, T)
    token_ids = tf.where(position == 0, cls_token_id, pad_token_id)
    token_ids = tf.where(
        (position > 0) & (position < first_end),
        _shifted(first, position - 1),
        token_ids,
    )
    if second is not None:
        token_ids = tf.where(
            (position > first_end) & (position < last),
            _shifted(second, position - first_end - 1),
            token_ids,
        )
    token_ids = tf.where(
        (position == first_end) | (position == last), sep_token_id, token_ids
    )
    padding_mask = tf.cast(position <= last, tf.int32)
    segment_ids = tf.cast((position > first_end) & (position <= last), tf.int32)
    if sequence_length is not None:
        shape = (first.shape[0], sequence_length)
        token_ids, segment_ids, padding_mask = (
            tf.ensure_shape(tensor, shape)
            for tensor in (token_ids, segment_ids, padding_mask)
        )
    return token_ids, segment_ids, padding_mask  # (B, T) each


def _ragged(rows: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns rows as a ragged tensor; every value of a dense one is a token."""
    if isinstance(rows, tf.RaggedTensor):
        return rows
    return tf.RaggedTensor.from_tensor(rows)


def _row_lengths(rows: tf.RaggedTensor) -> tf.Tensor:
    """Returns the length of each row, int32 (B, 1)."""
    return tf.cast(rows.row_lengths(), tf.int32)[:, tf.newaxis]


def _shifted(rows: tf.RaggedTensor, column: tf.Tensor) -> tf.Tensor:
    """Reads ``rows[b, column[b, t]]``, anything where that is beyond the row.

    Args:
        rows: ragged int (B, None).
        column: int32 (B, T) or (1, T).

    Returns:
        int32 (B, T).
    """
    # One more value, so that a batch of empty rows has something to read.
    values = tf.concat([tf.cast(rows.flat_values, tf.int32), [0]], axis=0)
    start = tf.cast(rows.row_starts(), tf.int32)[:, tf.newaxis]
    index = tf.clip_by_value(start + column, 0, tf.size(values) - 1)
    return tf.gather(values, index)
