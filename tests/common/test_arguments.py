"""Values of options, in hands that type anything."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.arguments import at_least, not_negative, positive


@given(st.integers(-50, 50), st.integers(-60, 60))
def test_whole_numbers(least: int, value: int) -> None:
    if value >= least:
        assert at_least(least)(str(value)) == value
    else:
        with pytest.raises(argparse.ArgumentTypeError, match=f"at least {least}"):
            at_least(least)(str(value))


@pytest.mark.parametrize("text", ["", "1.5", "1e3", "one", "nan", "0x10", "1 2"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="Received"):
        at_least(0)(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "-1", "ten", "1,5"])
def test_what_is_no_amount(text: str) -> None:
    for parse in (positive, not_negative):
        with pytest.raises(argparse.ArgumentTypeError, match="Received"):
            parse(text)


def test_zero_is_not_positive() -> None:
    assert not_negative("0") == 0.0
    assert positive("1e-9") == 1e-9
    with pytest.raises(argparse.ArgumentTypeError, match="positive"):
        positive("0")
