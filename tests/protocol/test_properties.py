from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.properties import decode_properties, encode_properties, find_property

text = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)


def test_vector() -> None:
    raw = encode_properties({"KEYS": "k1", "TAGS": "TagA"})
    assert raw.hex() == "4b455953016b310254414753015461674102"
    assert decode_properties(raw) == {"KEYS": "k1", "TAGS": "TagA"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a\x01b", {"a": "b"}),  # the last end mark may be missing
        (b"TRACE_CONTEXT\x01\x02k\x01v\x02", {"k": "v"}),  # an empty value is dropped when read
        (b"\x01v\x02a\x01b\x02", {"a": "b"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),  # the last one wins
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"\x02\x02a\x02", {}),
        (b"a\x01\xff\x02", {"a": "�"}),
    ],
)
def test_reading_follows_java(raw: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(raw) == expected


@pytest.mark.parametrize("bad", [{"a\x01b": "c"}, {"a": "x\x02TRAN_MSG\x01true"}, {"a": "b\x01"}])
def test_a_value_cannot_smuggle_in_another_property(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="separate properties"):
        encode_properties(bad)


def test_length_is_bounded() -> None:
    with pytest.raises(ValueError, match="32767"):
        encode_properties({"a": "x" * 32766})


@given(st.dictionaries(text, text))
def test_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


pieces = st.lists(st.sampled_from([b"a", b"ab", b"b", b"\x01", b"\x02", b"v", b""]), max_size=20).map(b"".join)


many_pieces = st.lists(st.sampled_from([b"a\x01", b"xa\x01", b"a\x01\x02", b"\x02", b"v"]), max_size=120).map(b"".join)


@given(many_pieces, st.sampled_from(["a", "xa"]))
@example(b"a\x01" * 40, "a")
@example(b"a\x01v\x02" + b"a\x01\x02" * 40, "a")
@example(b"a\x01v" + b"xa\x01w" * 40, "a")
def test_finding_one_among_many_that_look_like_it_agrees_too(raw: bytes, name: str) -> None:
    agrees(raw, name)


@given(pieces, st.sampled_from(["a", "ab", "b"]))
def test_finding_one_agrees_with_decoding_all(raw: bytes, name: str) -> None:
    agrees(raw, name)


def agrees(raw: bytes, name: str) -> None:
    found = find_property(raw, name.encode())
    assert (None if found is None else found.decode()) == decode_properties(raw).get(name)
