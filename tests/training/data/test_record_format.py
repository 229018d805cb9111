"""The encoder of records against TensorFlow's own."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data.record_format import encode_examples, lay_out, mix_keys

PAIR = st.tuples(st.integers(1, 40), st.integers(0, 40))


@settings(max_examples=100, deadline=None)
@given(st.lists(PAIR, max_size=12), st.sampled_from([100, 200, 40_000, 3_000_000]))
def test_bytes_are_those_of_tensorflow(pairs: list[tuple[int, int]], top: int) -> None:
    rng = np.random.default_rng(0)
    spans, position = [], 0
    for first, second in pairs:
        spans.append((position, position + first, position + first + second))
        position += first + second
    tokens = rng.integers(0, top, position).astype(np.int32)
    layout = lay_out(tokens, np.array(spans, np.int64).reshape(-1, 3), 101, 102)
    records = encode_examples(layout)
    assert len(records) == len(spans)
    for record, (start, middle, end) in zip(records, spans, strict=True):
        ids = [101, *tokens[start:middle], 102]
        segments = [0] * len(ids)
        if end > middle:
            ids += [*tokens[middle:end], 102]
            segments += [1] * (end - middle + 1)
        expected = tf.train.Example(
            features=tf.train.Features(
                feature={
                    "token_ids": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=ids)
                    ),
                    "segment_ids": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=segments)
                    ),
                }
            )
        )
        assert record == expected.SerializeToString(deterministic=True)
        hashed = int(rng.integers(0, 1 << 64, dtype=np.uint64)) >> int(rng.integers(64))
        expected.features.feature["document"].int64_list.value.append(hashed >> 1)
        alone = encode_examples(
            lay_out(
                tokens[start:end],
                np.array([(0, middle - start, end - start)]),
                101,
                102,
            ),
            np.array([hashed], np.uint64),
        )
        assert alone == [expected.SerializeToString(deterministic=True)]


def test_very_long_example() -> None:
    tokens = np.arange(20_000, dtype=np.int32)
    layout = lay_out(tokens, np.array([(0, 9_000, 20_000)]), 1, 2)
    (record,) = encode_examples(layout)
    parsed = tf.train.Example.FromString(record).features.feature
    segments = list(parsed["segment_ids"].int64_list.value)
    assert segments == [0] * 9_002 + [1] * 11_001


def test_keys_are_fixed_and_spread() -> None:
    keys = mix_keys(7, 3, 100_000)
    assert len(set(keys.tolist())) == len(keys)
    assert (mix_keys(7, 3, 10) == keys[:10]).all()
    assert (mix_keys(7, 4, 10) != keys[:10]).all()
    assert (mix_keys(8, 3, 10) != keys[:10]).all()
    # Uniform: within five standard errors in each of 16 equal parts.
    counts = np.bincount((keys >> np.uint64(60)).astype(int), minlength=16)
    assert np.abs(counts - 6250).max() < 5 * 6250**0.5


def test_keys_are_splitmix64() -> None:
    """The published generator: data must not change with a library's release."""

    def outputs(state: int, count: int) -> list[int]:
        found = []
        for _ in range(count):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            value = state
            value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
            found.append(value ^ (value >> 31))
        return found

    assert outputs(0, 1) == [0xE220A8397B1DCDAF]  # known from the literature
    assert mix_keys(0, 0, 5).tolist() == outputs(0xE220A8397B1DCDAF, 5)
