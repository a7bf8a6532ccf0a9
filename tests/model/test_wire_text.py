"""Numbers from elsewhere: what is one, and that nothing raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.wire_text import INT_MAX, LONG_MAX, decimal_number, whole_number


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("+7", 7), (str(LONG_MAX), LONG_MAX), (b"42", 42)]
)
def test_digits_are_a_number(text: str | bytes, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        b"",
        "²",
        "٣",
        "1_0",
        " 1",
        "1 ",
        "1\n",
        "+",
        "-",
        "--1",
        "1.0",
        "abc",
        "9" * 5000,
        "\0",
        "1\0",
        b"\xb2",
    ],
)
def test_anything_else_is_none(text: str | bytes | None) -> None:
    assert whole_number(text, low=-LONG_MAX) is None


def test_the_range_holds() -> None:
    assert whole_number("-1") is None
    assert whole_number("-1", low=-1) == -1
    assert whole_number(str(INT_MAX + 1), high=INT_MAX) is None
    assert whole_number(str(LONG_MAX + 1)) is None


@given(st.text() | st.binary())
def test_no_text_raises(text: str | bytes) -> None:
    assert whole_number(text) is None or isinstance(whole_number(text), int)


@pytest.mark.parametrize(
    ("text", "number"), [("0.25", 0.25), ("-3", -3.0), ("1.5E-5", 1.5e-5), ("7.", 7.0), ("+1", 1.0), ("12e2", 1200.0)]
)
def test_decimals_are_read_as_java_writes_them(text: str, number: float) -> None:
    assert decimal_number(text) == number


@pytest.mark.parametrize(
    "text", [None, "", "NaN", "Infinity", "1e999", "²", "٣", "1_0", " 1", "1\n", ".5", "0x1", "9" * 5000, "1e", "--1"]
)
def test_what_is_no_decimal_is_none(text: str | None) -> None:
    assert decimal_number(text) is None
