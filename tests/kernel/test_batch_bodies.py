"""Batch bodies that Python stores with the native kernel: the same bytes, places and refusals as message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.kernel.records import place_burst, whole_places
from pyromq.model.ids import pack_host
from pyromq.protocol.batch import BatchEntry, decode_batch, encode_batch
from pyromq.protocol.properties import MAX_PROPERTIES_BYTES
from pyromq.protocol.record import Record
from tests.kernel.twins import native_module

MARK = b"__SEND_ID\x01spark:1/0/7/"
PAIRS = st.tuples(st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"region", b"odd name"]), st.binary(max_size=9))
WHOLE = st.lists(PAIRS, max_size=4, unique_by=lambda pair: pair[0]).map(
    lambda pairs: b"".join(b"%s\x01%s\x02" % pair for pair in pairs)
)
PROPERTIES = WHOLE | WHOLE.map(lambda raw: raw[:-1])
ENTRIES = st.lists(st.builds(BatchEntry, st.binary(max_size=30), st.integers(-5, 5), PROPERTIES), max_size=12)
HOSTS = st.sampled_from([pack_host("127.0.0.1", 10911), pack_host("::1", 10911)])


def one_by_one(entries: list[BatchEntry]) -> list[BatchEntry]:
    named = []
    for number, (body, flag, properties) in enumerate(entries):
        end = b"" if not properties or properties.endswith(b"\x02") else b"\x02"
        named.append(BatchEntry(body, flag, b"%s%s%s%d\x02" % (properties, end, MARK, number)))
    return named


@given(ENTRIES)
def test_each_message_of_a_batch_gets_its_place_in_it(entries: list[BatchEntry]) -> None:
    body = encode_batch(entries)
    found = native_module().named_batch(body, MARK, MAX_PROPERTIES_BYTES)
    assert found == ((encode_batch(one_by_one(entries)), len(entries)) if entries else None)
    assert native_module().named_batch(memoryview(body), MARK, MAX_PROPERTIES_BYTES) == found
    assert native_module().count_messages(body, MAX_PROPERTIES_BYTES) == len(entries)
    longest = max((len(each.properties) for each in entries), default=0)
    assert native_module().count_messages(body, longest - 1) == (-1 if entries else 0)


@given(ENTRIES, HOSTS, HOSTS, st.booleans(), st.integers(0, 1 << 50))
def test_the_records_are_those_of_messages_placed_one_by_one(
    entries: list[BatchEntry], born_host: bytes, store_host: bytes, with_crc: bool, position: int
) -> None:
    numbers = (3, 41, 0, 1_700_000_000_000, 2, position, 1_700_000_000_123)
    made = native_module().batch_records(encode_batch(entries), b"orders", numbers, born_host, store_host, with_crc)
    records = [
        Record(
            topic="orders",
            queue_id=3,
            queue_offset=41 + number,
            body=body,
            properties=properties,
            flag=flag,
            born_timestamp=1_700_000_000_000,
            born_host=born_host,
            store_host=store_host,
            reconsume_times=2,
        )
        for number, (body, flag, properties) in enumerate(entries)
    ]
    buffers, places = place_burst(records, position, 1_700_000_000_123, {}, with_crc)
    brings_crc = b"__CRC32#" in encode_batch(entries)
    assert made == (None if brings_crc else b"".join(buffers) or None)
    if made is not None:
        found, _ = whole_places(made, position)
        if len(found) == len(places):  # else a property is odd, and the store places them one by one
            without_host_bits = [each._replace(sys_flag=each.sys_flag & ~0x30)[:8] for each in found]
            assert without_host_bits == [each[:8] for each in places]


@given(st.binary(max_size=80), ENTRIES, st.integers(0, 400))
def test_whatever_is_malformed_is_left_to_python(junk: bytes, entries: list[BatchEntry], cut: int) -> None:
    body = encode_batch(entries)
    for odd in (junk, body[:cut], body + junk):
        try:
            count = len(decode_batch(odd))
        except ProtocolError:
            assert native_module().count_messages(odd, MAX_PROPERTIES_BYTES) == -1
            assert native_module().named_batch(odd, MARK, MAX_PROPERTIES_BYTES) is None
            assert native_module().batch_records(odd, b"T", (0,) * 7, bytes(8), bytes(8), False) is None
        else:
            assert native_module().count_messages(odd, MAX_PROPERTIES_BYTES) in (count, -1)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_properties_that_leave_no_room_are_left_to_python(room: int) -> None:
    value = b"x" * (MAX_PROPERTIES_BYTES - len(b"a\x01\x02") - len(MARK) - 2 + 1 - room)
    body = encode_batch([BatchEntry(b"b", 0, b"a\x01%s\x02" % value)])
    assert (native_module().named_batch(body, MARK, MAX_PROPERTIES_BYTES) is None) == (room == 0)


def test_a_crc_of_the_sender_is_pythons() -> None:
    body = encode_batch([BatchEntry(b"b", 0, b"__CRC32#\x010000000000\x02")])
    assert native_module().batch_records(body, b"T", (0,) * 7, bytes(8), bytes(8), True) is None
