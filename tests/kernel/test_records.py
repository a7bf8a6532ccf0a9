"""The record loops: what they pick, place and refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError
from pyromq.kernel.records import (
    Fault,
    Placed,
    Range,
    check_at,
    is_intact,
    parse_delay_levels,
    pick_entries,
    place_burst,
    whole_places,
)
from pyromq.model.java_hash import java_hash
from pyromq.model.message import WRAPPED_BATCH
from pyromq.protocol.record import BLANK, MAGIC_BLANK, Record, decode_record
from pyromq.store.layout import FILLER, QUEUE_ENTRY

DELAYS = parse_delay_levels("1s 5s 1m")
LATER = 1 << 40


def burst(count: int, position: int = 1000, **fields: object) -> tuple[bytes, list[Placed]]:
    records = [Record(topic="T", queue_id=1, body=b"b%d" % n, queue_offset=n, **fields) for n in range(count)]  # type: ignore[arg-type]
    buffers, places = place_burst(records, position, 77, DELAYS, True)
    return b"".join(buffers), places


# -- place -------------------------------------------------------------------------------------------------------------


def test_a_burst_is_placed_one_record_after_another() -> None:
    raw, places = burst(3)
    assert [place.position for place in places] == [1000, 1000 + places[0].size, places[1].end]
    assert places[-1].end == 1000 + len(raw)
    assert decode_record(raw, places[1].position - 1000).store_timestamp == 77


@pytest.mark.parametrize(
    ("topic", "properties", "code"),
    [
        ("T", b"", 0),
        ("T", b"TAGS\x01TagA\x02", java_hash("TagA")),
        ("SCHEDULE_TOPIC_XXXX", b"DELAY\x012\x02TAGS\x01TagA\x02", 77 + 5_000),
        ("SCHEDULE_TOPIC_XXXX", b"DELAY\x0199\x02", 77 + 60_000),  # beyond the last level is the last
        ("SCHEDULE_TOPIC_XXXX", b"DELAY\x010\x02TAGS\x01a\x02", java_hash("a")),
        ("T", b"DELAY\x012\x02", 0),
    ],
)
def test_tag_codes(topic: str, properties: bytes, code: int) -> None:
    _, (place,) = place_burst([Record(topic=topic, queue_id=0, body=b"", properties=properties)], 0, 77, DELAYS, False)
    assert place.tag_code == code


def test_transactions_that_are_not_committed_have_no_queue_entry() -> None:
    kinds = {}
    for flag in (0, 4, 8, 12):
        _, (place,) = burst(1, sys_flag=flag)
        kinds[flag] = (place.in_queue, place.in_index)
    assert kinds == {0: (True, True), 4: (False, True), 8: (True, True), 12: (False, False)}


@pytest.mark.parametrize("bad", ["1x", "s", "5", "1s -2s"])
def test_delay_levels_that_make_no_sense_are_refused(bad: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        parse_delay_levels(bad)


def test_a_level_is_given_in_seconds_minutes_hours_or_days() -> None:
    assert parse_delay_levels("7s 2m 3h 40d") == {1: 7_000, 2: 120_000, 3: 10_800_000, 4: 40 * 86_400_000}


# -- scan --------------------------------------------------------------------------------------------------------------


def scanned(raw: bytes, position: int = 1000) -> tuple[list[Placed], Fault]:
    """The records from the first byte on, and what ends them."""
    places: list[Placed] = []
    at = 0
    while isinstance(found := check_at(memoryview(raw), at, position + at, DELAYS), Placed):
        places.append(found)
        at += found.size
    return places, found


def test_scanning_gives_back_what_was_placed() -> None:
    raw, places = burst(5)
    found, fault = scanned(raw)
    assert [place._replace(properties=b"") for place in found] == places
    assert (fault.position, fault.is_end) == (places[-1].end, False)


def test_a_blank_record_is_none() -> None:
    raw, places = burst(1)
    _, fault = scanned(raw + BLANK.pack(500, MAGIC_BLANK) + bytes(492))
    assert (fault.position, fault.is_end) == (places[-1].end, False)


def test_zeroes_are_the_end_and_not_damage() -> None:
    raw, places = burst(1)
    _, fault = scanned(raw + bytes(200))
    assert (fault.position, fault.is_end) == (places[-1].end, True)


def test_a_record_that_goes_on_behind_the_bytes_given_is_none() -> None:
    raw, places = burst(2)
    found, fault = scanned(raw[:-1])
    assert (len(found), fault.position) == (1, places[1].position)


def test_stale_bytes_of_a_reused_file_fail_by_their_own_offset_10017_10018() -> None:
    raw, _ = burst(1)
    fault = check_at(memoryview(raw), 0, 5000, DELAYS)
    assert isinstance(fault, Fault)
    assert "lies at 1000" in fault.reason
    assert not is_intact(memoryview(raw), 5000)


@given(st.data())
def test_any_changed_bit_is_seen_or_harmless(data: st.DataObject) -> None:
    raw, (place,) = burst(1, properties=b"TAGS\x01TagA\x02UNIQ_KEY\x01abc\x02")
    at = data.draw(st.integers(0, len(raw) * 8 - 1))
    bad = bytearray(raw)
    bad[at // 8] ^= 1 << at % 8
    in_crc_property = at // 8 >= len(raw) - 20
    checked = check_at(memoryview(bytes(bad)), 0, 1000, DELAYS)
    assert isinstance(checked, Fault) or in_crc_property
    assert not is_intact(memoryview(bytes(bad)), 1000) or in_crc_property
    assert is_intact(memoryview(raw), place.position)


@given(st.binary(max_size=300))
def test_any_bytes_scan_to_a_fault_and_never_raise(junk: bytes) -> None:
    scanned(junk, 0)
    whole_places(memoryview(junk), 0)
    is_intact(memoryview(junk), 0)


# -- pull --------------------------------------------------------------------------------------------------------------


def entries(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(QUEUE_ENTRY.pack(*row) for row in rows)


QUEUE = entries((0, 10, 1), (10, 10, 2), (20, 10, 1), (30, 10, 3))


def pick(raw: bytes = QUEUE, tags: set[int] | None = None, count: int = 9, size: int = LATER, low: int = 0) -> object:
    picked = pick_entries(raw, 100, tags, count, size, low)
    return [found.position for found in picked.ranges], picked.next_offset, picked.full


def test_all_entries() -> None:
    assert pick() == ([0, 10, 20, 30], 104, False)
    assert pick_entries(QUEUE, 100, None, 1, LATER, 0).ranges == [Range(0, 10, 100)]


def test_tags_pass_what_does_not_match() -> None:
    assert pick(tags={1}) == ([0, 20], 104, False)
    assert pick(tags={9}) == ([], 104, False)


def test_count_and_bytes_end_it_and_the_first_is_always_taken() -> None:
    assert pick(count=2) == ([0, 10], 102, True)
    assert pick(size=25) == ([0, 10], 102, True)
    assert pick(size=1) == ([0], 101, True)


def test_fillers_and_expired_entries_are_stepped_over() -> None:
    assert pick(FILLER + QUEUE, low=15) == ([20, 30], 105, False)


def test_an_entry_that_was_never_written_ends_it() -> None:
    assert pick(QUEUE + bytes(20) + QUEUE) == ([0, 10, 20, 30], 104, False)


# -- choice ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "counts"), [(b"32767", 32767), (b"32768", 1), (b"0", 1), (b"two", 1)])
def test_an_inner_batch_has_at_most_as_many_messages_as_its_queue_entry_can_say(said: bytes, counts: int) -> None:
    _, places = burst(1, sys_flag=WRAPPED_BATCH, properties=b"INNER_NUM\x01" + said + b"\x02")
    assert [place.messages for place in places] == [counts]
