"""pack_segments: layout, cutting, padding."""

import json

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.models.packing import pack_segments
from lvbert_tf.models.tokenizer import LVBertTokenizer
from tests.paths import require_shared

CLS, SEP, PAD = 2, 3, 0
IDS = st.lists(st.integers(5, 99), max_size=12)


def _expected(
    first: list[int], second: list[int] | None, limit: int
) -> tuple[list[int], list[int]]:
    """Cuts pairs as the official code does, token by token."""
    first, second = list(first), None if second is None else list(second)
    if second is None:
        tokens = [CLS, *first[: limit - 2], SEP]
        return tokens, [0] * len(tokens)
    while len(first) + len(second) > limit - 3:
        (first if len(first) > len(second) else second).pop()
    tokens = [CLS, *first, SEP, *second, SEP]
    return tokens, [0] * (len(first) + 2) + [1] * (len(second) + 1)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(IDS, IDS), min_size=1, max_size=4),
    st.integers(3, 20),
    st.booleans(),
    st.booleans(),
)
def test_layout(
    rows: list[tuple[list[int], list[int]]], limit: int, pairs: bool, fixed: bool
) -> None:
    first, second = (
        tf.RaggedTensor.from_row_lengths(
            tf.constant([one for row in part for one in row], tf.int32),
            [len(row) for row in part],
        )
        for part in zip(*rows, strict=True)
    )
    token_ids, segment_ids, padding_mask = (
        result.numpy().tolist()
        for result in pack_segments(
            first,
            second if pairs else None,
            sequence_length=limit if fixed else None,
            max_sequence_length=limit,
            cls_token_id=CLS,
            sep_token_id=SEP,
            pad_token_id=PAD,
        )
    )
    expected = [_expected(a, b if pairs else None, limit) for a, b in rows]
    width = limit if fixed else max(len(tokens) for tokens, _ in expected)
    for row, (tokens, segments) in enumerate(expected):
        fill = [0] * (width - len(tokens))
        assert token_ids[row] == tokens + fill
        assert segment_ids[row] == segments + fill
        assert padding_mask[row] == [1] * len(tokens) + fill


def test_official_features() -> None:
    """The official features of sentence pairs, cut at 24 tokens."""
    golden = require_shared("golden/finetune/glue_features.json")
    vocabulary = require_shared("data/vocab.bert-uncased.txt")
    content = json.loads(golden.read_text("utf-8"))
    tokenizer = LVBertTokenizer(vocabulary)
    compared = 0
    for row in content["examples"]:
        features = row["features"]
        pair = tokenizer([row["text_b"]]) if row["text_b"] else None
        packed = pack_segments(
            tf.ragged.constant(tokenizer([row["text_a"]]), dtype=tf.int32),
            None if pair is None else tf.ragged.constant(pair, dtype=tf.int32),
            sequence_length=content["max_seq_length"],
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        for name, found in zip(
            ("input_ids", "segment_ids", "input_mask"), packed, strict=True
        ):
            assert found.numpy()[0].tolist() == features[name], row
            compared += 1
    assert compared == 3 * len(content["examples"]) > 0


def test_static_shape_in_a_graph() -> None:
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)] * 2)
    def pack(first: tf.RaggedTensor, second: tf.RaggedTensor) -> tf.Tensor:
        packed = pack_segments(
            first,
            second,
            sequence_length=8,
            cls_token_id=CLS,
            sep_token_id=SEP,
            pad_token_id=PAD,
        )
        assert packed[0].shape.as_list() == [None, 8]
        return packed[0]

    none = tf.RaggedTensor.from_row_lengths(tf.constant([], tf.int32), [])
    assert pack(none, none).shape == (0, 8)


def test_unbatched() -> None:
    packed = pack_segments(
        tf.constant([7, 8]),
        tf.constant([9]),
        sequence_length=7,
        cls_token_id=CLS,
        sep_token_id=SEP,
        pad_token_id=PAD,
    )
    assert [tensor.numpy().tolist() for tensor in packed] == [
        [2, 7, 8, 3, 9, 3, 0],
        [0, 0, 0, 0, 1, 1, 0],
        [1, 1, 1, 1, 1, 1, 0],
    ]


@pytest.mark.parametrize(("length", "limit"), [(2, None), (None, None), (None, 2)])
def test_room_for_specials(length: int | None, limit: int | None) -> None:
    rows = tf.ragged.constant([[1]], dtype=tf.int32)
    with pytest.raises(ValueError, match="room for 3 special tokens"):
        pack_segments(
            rows,
            rows,
            sequence_length=length,
            max_sequence_length=limit,
            cls_token_id=CLS,
            sep_token_id=SEP,
            pad_token_id=PAD,
        )
