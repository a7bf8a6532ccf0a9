"""The generated loop over records answers as decoding each record and asking the tree of functions does."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.filters.filters import MOST_PROPERTIES, RecordFilter, record_loop
from pyromq.model.filters.sql92 import EvaluationFault, Sql92
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.record import MAGIC_V1, MAGIC_V2, Record, encode_record

TABLE = Path(__file__).resolve().parents[2] / "golden" / "sql92.json"
ROWS: list[tuple[str, dict[str, str], str]] = json.loads(TABLE.read_text("utf-8"))


def stored(properties: bytes, *, host: int = 8, magic: int = MAGIC_V1) -> bytes:
    """The body looks like a property, too."""
    record = Record(topic="T", queue_id=0, body=b"a\x015\x02", properties=properties, magic=magic)
    record = msgspec.structs.replace(record, born_host=bytes(host), store_host=bytes(host))
    return encode_record(record, with_crc=True)


def answers(text: str, properties: bytes, **odd: int) -> tuple[bool, bool]:
    """By the loop, and by decoding."""
    looped = next(RecordFilter(Sql92(text)).accepted([stored(properties, **odd)]), None) is not None
    try:
        return looped, Sql92(text, usual=False).matches(decode_properties(properties))
    except EvaluationFault:
        return looped, False


def test_it_matches_as_java_does() -> None:
    different, asked = [], 0
    for text, properties, wanted in ROWS:
        if wanted == "invalid" or any("\x01" in part or "\x02" in part for part in (*properties, *properties.values())):
            continue
        record_filter, asked = RecordFilter(Sql92(text)), asked + 1
        found = next(record_filter.accepted([stored(encode_properties(properties))]), None) is not None
        # What has no value has not come, once it was stored.
        if found is not (wanted == "true") and all(properties.values()):
            different.append(f"{text[:80]!r} {properties}: Java says {wanted}, we {found}")
    assert different == []
    assert asked > 1_000


NAMES = st.sampled_from([b"a", b"b", b"ba", b"xa", b"a b", b""])
VALUES = st.sampled_from(
    [
        b"",
        b"5",
        b"-5",
        b"5.0",
        b"05",
        b"9999999999",
        b"x",
        b"TRUE",
        b"true",
        b"\xff",
        b"\xc3\xa9",
        b"a",
        b"a\x01",
        b" 5",
    ]
)
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
TEXTS = [
    *(
        "a > 4",
        "a = 5",
        "a <> 5",
        "a > 4.5",
        "a = -5.0",
        "a = 'x'",
        "a = 'é'",
        "a CONTAINS 'é'",
        "a IS NULL",
        "a = TRUE",
    ),
    *("a IN ('x', '5') AND b IS NOT NULL", "NOT (a = b)", "a BETWEEN 1 AND 9 OR b ENDSWITH 'x'", "a = '\ufffd'"),
    *("b > 1 AND a STARTSWITH '5'", "5 = a", "a NOT IN ('x')", "NOT a = FALSE", "a CONTAINS '\ufffd'"),
]


@given(st.sampled_from(TEXTS), PAIRS, st.booleans())
def test_it_answers_as_decoding_does(text: str, pairs: list[tuple[bytes, bytes]], is_open: bool) -> None:
    raw = b"".join(b"%b\x01%b\x02" % pair for pair in pairs)
    looped, decoded = answers(text, raw[:-1] if is_open else raw)
    assert looped is decoded


@pytest.mark.parametrize("odd", [{"host": 20}, {"magic": MAGIC_V2}, {"host": 20, "magic": MAGIC_V2}])
def test_records_of_other_layouts(odd: dict[str, int]) -> None:
    assert answers("a = 'y' AND b > 3", b"a\x01y\x02b\x014\x02", **odd) == (True, True)
    assert answers("a = 'y' AND b > 3", b"a\x01n\x02b\x014\x02", **odd) == (False, False)


def test_what_cannot_be_asked_of_one_record_is_told_and_ends_nothing() -> None:
    record_filter = RecordFilter(Sql92("a > 5"))
    records = [stored(b"a\x01%b\x02" % value) for value in (b"word", b"6", b"also", b"7")]
    assert list(record_filter.accepted(records)) == [records[1], records[3]]
    assert record_filter.failed == 2


def test_many_properties_are_decoded_instead() -> None:
    few = " AND ".join(f"p{number} = '1'" for number in range(MOST_PROPERTIES))
    assert record_loop(Sql92(few)) is not None
    assert record_loop(Sql92(few + " AND one_more = '1'")) is None
    record = stored(encode_properties({f"p{number}": "1" for number in range(MOST_PROPERTIES)} | {"one_more": "1"}))
    assert list(RecordFilter(Sql92(few + " AND one_more = '1'")).accepted([record])) == [record]
