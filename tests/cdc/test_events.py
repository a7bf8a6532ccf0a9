"""Change events survive their way through bytes, and what is none says why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.cdc.events import (
    KEY_PROPERTY,
    NUMBER_PROPERTY,
    UNAVAILABLE,
    BadEvent,
    Op,
    decode_event,
    encode_event,
    encode_key,
)

SOURCE = {"connector": "mariadb", "db": "shop", "table": "orders"}
VALUES = st.none() | st.integers(0, 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"])) | st.booleans()
ROWS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), VALUES)


@given(ROWS, ROWS, st.booleans())
def test_rows_come_back_as_they_were(before: dict[str, Any], after: dict[str, Any], with_schema: bool) -> None:
    schema = {"type": "struct"} if with_schema else None
    body = encode_event(Op.UPDATE, before, after, SOURCE, 7, schema=schema)
    event = decode_event("cdc-shop-orders", body, {NUMBER_PROPERTY: "12"})
    assert (event.before, event.after, event.number, event.ts_ms) == (before, after, 12, 7)
    assert (event.op, event.table, event.key) == (Op.UPDATE, "shop.orders", None)


@given(ROWS)
def test_keys_are_text_that_properties_can_have(key: dict[str, Any]) -> None:
    text = encode_key(key)
    assert text is not None
    assert not {"\x01", "\x02"} & set(text)
    body = encode_event(Op.DELETE, key, None, SOURCE, 7)
    assert decode_event("t", body, {KEY_PROPERTY: text}).key == key


def test_a_column_that_the_log_does_not_have_is_absent_and_null_is_none() -> None:
    body = encode_event(Op.UPDATE, None, {"id": 1, "note": None, "picture": UNAVAILABLE}, SOURCE, 7)
    assert decode_event("t", body, {}).after == {"id": 1, "note": None}


def test_a_tombstone_has_its_key_alone() -> None:
    event = decode_event("t", b"null", {KEY_PROPERTY: '{"id":3}', NUMBER_PROPERTY: "4"})
    assert (event.op, event.key, event.number) == (Op.TOMBSTONE, {"id": 3}, 4)


@pytest.mark.parametrize(
    ("body", "properties", "words"),
    [
        (b"hello", {}, "its body is not JSON"),
        (b"{}", {}, "it has no source"),
        (b"[1]", {}, "it has no source"),
        (b'{"source": {}, "op": "x"}', {}, "operation 'x'"),
        (b"null", {KEY_PROPERTY: "{"}, "its key is not JSON"),
        (b"null", {NUMBER_PROPERTY: "many"}, "cdcNumber='many'"),
    ],
)
def test_what_is_no_event_says_why(body: bytes, properties: dict[str, str], words: str) -> None:
    with pytest.raises(BadEvent, match=r"topic t") as refused:
        decode_event("t", body, properties)
    assert words in str(refused.value)
