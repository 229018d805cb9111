"""The lenient JSON reader: its fast and slow ways, and what both accept."""

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.server.json_parser import _read, encode_text, parse, parse_object
from serving.server.status import ServingError

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_both_ways_read_what_json_writes(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse(text.encode()) == value
    assert _read(text) == value


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_400(body: bytes) -> None:
    # Any other exception fails the test.
    with contextlib.suppress(ServingError):
        parse(body)


@given(st.text(alphabet='{}[]",:0123456789.eE-+ \\utfalsnrINy\ud7ff', max_size=40))
def test_the_fast_way_changes_nothing(text: str) -> None:
    def outcome(read: Any, argument: Any) -> str:
        try:
            return repr(read(argument))
        except ServingError as error:
            return error.message

    assert outcome(parse, text.encode()) == outcome(_read, text)


@given(
    st.binary(min_size=1, max_size=20).filter(lambda raw: not set(raw) & set(b'"\\'))
)
def test_bytes_of_a_string_survive(raw: bytes) -> None:
    if any(byte < 0x20 for byte in raw):
        return
    value = parse(b'{"a": "' + raw + b'"}')
    assert encode_text(value["a"]) == raw


def test_non_numbers_and_depth() -> None:
    body = b"[NaN, Infinity, -Infinity, Inf, -Inf]"
    values = parse(body)
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, math.inf, -math.inf]
    depth = 100_000
    value = parse(b"[" * depth + b"]" * depth)
    for _ in range(depth - 1):
        value = value[0]
    assert value == []


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "The document is empty"),
        (b"  ", "The document is empty"),
        (b'{"a":1e999}', "too big"),
        (b'{"a":' + b"9" * 400 + b"}", "too big"),
        (b'{"a":01}', "Missing a comma"),
        (b'{"a" 1}', "colon"),
        (b'{"a":"\n"}', "Invalid encoding"),
        (b'{"a":"', "closing quotation mark"),
        (b'{"a":"\\x"}', "Invalid escape"),
        (b'{"a":"\\u12g4"}', "hex digit"),
        (b'{"a":"\\udc00"}', "surrogate"),
        (b'{"a":1,}', "Missing a name"),
        (b"[1]", "Is not object"),
    ],
)
def test_errors_say_what_is_wrong(body: bytes, part: str) -> None:
    with pytest.raises(ServingError, match=part) as caught:
        parse_object(body)
    assert caught.value.http_status == 400
