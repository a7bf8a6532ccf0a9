"""Numbers from elsewhere: what is one, and that nothing raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.wire_text import INT_MAX, LONG_MAX, whole_number


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
