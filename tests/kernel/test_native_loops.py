"""The native loops give what the Python ones give: CRC, index chains, picked entries, records cut for a pull."""

from __future__ import annotations

import zlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel import state
from pyromq.kernel.python.keys import KEY, PAGE_SLOTS, big_endian
from pyromq.kernel.python.placed import place_burst
from pyromq.kernel.python.pull import Range, pick_entries
from pyromq.kernel.python.scan import is_intact
from pyromq.protocol.record import CRC_PROPERTY_BYTES, Record, whole_record_crc
from pyromq.store.index.index_file import header_of
from pyromq.store.layout import FILLER, QUEUE_ENTRY
from tests.kernel.twins import native_module


@given(st.binary(max_size=300), st.integers(0, (1 << 32) - 1))
def test_crc(data: bytes, before: int) -> None:
    assert native_module().crc32(data, before) == zlib.crc32(data, before)


@given(
    st.lists(st.tuples(st.integers(0, (1 << 31) - 1), st.integers(0, 1 << 40)), min_size=1, max_size=40),
    st.integers(1, 3000),
    st.data(),
)
def test_index_chains(keys: list[tuple[int, int]], slots: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(keys) - 1))
    count = data.draw(st.integers(1, len(keys) - first))
    due_pages = data.draw(st.binary(min_size=3, max_size=3))
    begin_time, number = data.draw(st.sampled_from([(0, 1), (500, 7)]))
    raw = b"".join(KEY.pack(*key) for key in keys)
    outcomes = []
    for classes in (state.PYTHON, native_module()):
        table, dirty = array("I", range(slots)), bytearray(-(-slots // PAGE_SLOTS))
        due, saved = bytearray(due_pages[: len(dirty)]), dict[int, bytes]()
        tail = classes.IndexTail(100, 40, lambda: None)
        tail.set_header(begin_time, 0, 0, 0, 3, number)
        tail.slots = classes.SlotState(table, dirty, due, saved)
        tail.add(raw, first, count, 9000)
        outcomes.append((tail.pending, tail.pending_bytes, header_of(tail), table, dirty, due, saved))
        with pytest.raises(ValueError, match="than fit"):
            tail.add(raw * 5, 0, 101, 9000)
    assert outcomes[0] == outcomes[1]


@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=50), st.data())
def test_slots_as_the_file_has_them(slots: list[int], data: st.DataObject) -> None:
    table = array("I", slots)
    first = data.draw(st.integers(0, len(slots)))
    until = data.draw(st.integers(first, len(slots) + 5))
    assert native_module().big_endian(table, first, until) == big_endian(table, first, until)


entry = st.one_of(
    st.builds(QUEUE_ENTRY.pack, st.integers(0, 500), st.integers(0, 60), st.integers(-2, 2)),
    st.just(FILLER),
)


@given(
    st.lists(entry, max_size=12).map(b"".join),
    st.sampled_from([None, {0, 1}, {-1}, frozenset[int]()]),
    st.integers(0, 8),
    st.integers(0, 120),
    st.integers(0, 300),
)
def test_picked_entries(entries: bytes, codes: set[int] | None, count: int, size: int, low: int) -> None:
    picked = native_module().pick_entries(entries, 100, codes, count, size, low)
    assert picked == pick_entries(entries, 100, codes, count, size, low)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6), st.booleans(), st.data())
def test_sealed_records(bodies: list[bytes], sealed: bool, data: st.DataObject) -> None:
    """All or nothing: whatever it hands out passes the look at each."""
    records = [Record(topic="T", queue_id=0, body=body, properties=b"TAGS\x01a\x02") for body in bodies]
    buffers, places = place_burst(records, 1000, 7, {}, sealed)
    wanted = data.draw(st.lists(st.sampled_from(places), min_size=1, unique=True).map(sorted))
    ranges = [Range(place.position, place.size, number) for number, place in enumerate(wanted)]
    raw = bytearray(b"".join(buffers))
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    parts: list[bytes] = []
    expected = -1
    for one in ranges:
        piece = bytes(raw[one.position - 1000 : one.position - 1000 + one.size])
        if one.position == expected:
            parts[-1] += piece
        else:
            parts.append(piece)
        expected = one.position + one.size
    each = [bytes(raw[one.position - 1000 : one.position - 1000 + one.size]) for one in ranges]
    whole = all(is_intact(memoryview(one), place.position) for one, place in zip(each, ranges, strict=True))
    has_crc = all(whole_record_crc(one[-CRC_PROPERTY_BYTES:]) is not None for one in each)  # its name may be harmed
    assert native_module().cut_sealed(ranges, parts) == (each if whole and has_crc else None)
    assert native_module().cut_sealed(ranges, []) is None
