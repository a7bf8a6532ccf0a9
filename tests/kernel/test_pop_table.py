"""The table of young check points: what each call promises, and that its journal tells the same."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.kernel.pops import POINT_BYTES, Ack, CheckPoint, DamagedJournal, LaneFigures
from pyromq.kernel.python import feeds as python_feeds
from pyromq.kernel.python.pop_table import PopTable
from tests.kernel.pop_steps import Step, state_of, steps
from tests.kernel.twins import native_module

NOW = 1_700_000_000_000
ROOM = 1 << 20


@pytest.fixture
def table() -> PopTable:
    return made(ROOM)


def made(most_bytes: int) -> PopTable:
    """A table of the kernel that the test is about."""
    module = native_module()
    return PopTable(most_bytes) if module is python_feeds else module.PopTable(most_bytes)


def popped(table: PopTable, start: int = 0, count: int = 3, time: int = NOW, invisible: int = 30_000) -> int:
    """Hand out so many in a row on lane (g, T, 0)."""
    lane = table.lane("g", "T", 0)
    assert table.hand_out(lane, start, range(start, start + count), start + count, time, invisible, 2)
    return lane


def again(*journal: bytes) -> PopTable:
    fresh = made(ROOM)
    for entries in journal:
        fresh.replay(entries)
    return fresh


def test_lanes_are_numbered_and_named(table: PopTable) -> None:
    first, second = table.lane("g", "T", 0), table.lane("g", "T", 1)
    assert (first, second, table.lane("g", "T", 0)) == (0, 1, 0)
    assert table.names(second) == ("g", "T", 1)
    assert table.next_offset(first) == table.base(first) == -1
    with pytest.raises(ValueError, match="no lane 7"):
        table.names(7)


def test_base_is_the_first_unsettled_offset(table: PopTable) -> None:
    lane = popped(table)
    popped(table, 3, 2, NOW + 1)
    assert (table.next_offset(lane), table.base(lane)) == (5, 0)
    assert table.ack(lane, 0, NOW, 0) is Ack.SET
    assert table.base(lane) == 1
    assert table.ack(lane, 0, NOW, 2) is Ack.SET
    assert table.ack(lane, 3, NOW + 1, 3) is Ack.SET
    assert table.base(lane) == 1
    assert table.ack(lane, 0, NOW, 1) is Ack.SET
    assert table.base(lane) == 4
    assert table.ack(lane, 3, NOW + 1, 4) is Ack.SET
    assert table.base(lane) == table.next_offset(lane) == 5


def test_base_looks_behind_a_check_point_whose_first_messages_are_settled(table: PopTable) -> None:
    lane = popped(table, count=4)
    assert table.change(lane, 0, NOW, 1, NOW + 5, 1_000, False) is Ack.SET
    table.ack(lane, 0, NOW, 0)
    table.ack(lane, 0, NOW, 2)
    assert table.base(lane) == 1, "offset 3 is open in the first, 1 in the second"


def test_acks_of_what_is_not_open(table: PopTable) -> None:
    lane = popped(table)
    assert table.ack(lane, 0, NOW, 1) is Ack.SET
    assert table.ack(lane, 0, NOW, 1) is Ack.AGAIN
    assert table.ack(lane, 0, NOW, 3) is Ack.UNKNOWN
    assert table.ack(lane, 0, NOW + 1, 0) is Ack.UNKNOWN
    assert table.ack(lane, 1, NOW, 1) is Ack.UNKNOWN


def test_a_filter_leaves_gaps(table: PopTable) -> None:
    lane = table.lane("g", "T", 0)
    assert table.hand_out(lane, 0, [1, 3, 900], 1_000, NOW, 60_000, 0)
    assert table.ack(lane, 0, NOW, 2) is Ack.UNKNOWN
    assert table.ack(lane, 0, NOW, 3) is Ack.SET
    assert table.points(lane) == [CheckPoint(lane, 0, NOW, 60_000, 0, (1, 3, 900), 0b101)]
    assert table.points(lane)[0].open_offsets == [1, 900]
    assert state_of(again(table.take_entries())) == state_of(table)


def test_an_equal_start_and_time_is_refused(table: PopTable) -> None:
    lane = popped(table)
    table.take_entries()
    assert not table.hand_out(lane, 0, [0], 1, NOW, 60_000, 0)
    assert table.take_entries() == b""
    assert table.next_offset(lane) == 3


@pytest.mark.parametrize(
    ("start", "offsets", "following"),
    [(0, [], 1), (0, [1, 1], 2), (0, [2, 1], 3), (2, [1], 3), (-1, [0], 1), (0, [0, 1], 1), (0, range(65), 65)],
)
def test_offsets_that_make_no_check_point(table: PopTable, start: int, offsets: list[int], following: int) -> None:
    lane = table.lane("g", "T", 0)
    before = state_of(table)
    with pytest.raises(ValueError, match=r"offset|messages"):
        table.hand_out(lane, start, offsets, following, NOW, 1, 0)
    assert state_of(table) == before


def test_a_full_table_hands_out_nothing_and_names_what_has_to_leave() -> None:
    table = made(8 * POINT_BYTES)
    for number in range(8):
        popped(table, number, 1, NOW + number)
    assert not table.hand_out(0, 8, [8], 9, NOW + 9, 1, 0)
    (oldest,) = table.aged(NOW, 10)
    assert oldest.pop_time == NOW
    table.spilled(oldest)
    assert table.aged(NOW, 10) == []
    assert table.hand_out(0, 8, [8], 9, NOW + 9, 1, 0)


def test_a_change_moves_one_message(table: PopTable) -> None:
    lane = popped(table)
    assert table.change(lane, 0, NOW, 1, NOW + 10, 5_000, True) is Ack.SET
    assert table.points(lane) == [
        CheckPoint(lane, 0, NOW, 30_000, 2, (0, 1, 2), 0b101),
        CheckPoint(lane, 1, NOW + 10, 5_000, 2, (1,), 1, True),
    ]
    assert table.change(lane, 0, NOW, 1, NOW + 11, 5_000, False) is Ack.AGAIN
    assert table.change(lane, 9, NOW, 9, NOW + 11, 5_000, False) is Ack.UNKNOWN
    assert [table.moved(lane, offset) for offset in (0, 1, 2, 9)] == [None, NOW + 10, None, None]
    assert table.ack(lane, 1, NOW + 10, 1) is Ack.SET


def test_a_change_within_the_millisecond_of_the_pop(table: PopTable) -> None:
    lane = popped(table)
    assert table.change(lane, 0, NOW, 0, NOW, 5_000, False) is Ack.CLASH
    assert table.change(lane, 0, NOW, 0, NOW + 1, 5_000, False) is Ack.SET
    lane = popped(table, 7, 1, NOW)
    assert table.change(lane, 7, NOW, 7, NOW, 1_000, False) is Ack.SET, "alone in its check point: it takes its place"
    assert [point.invisible_ms for point in table.points(lane) if point.start == 7] == [1_000]
    assert state_of(again(table.take_entries())) == state_of(table)


def test_what_is_due_comes_in_order_and_stays(table: PopTable) -> None:
    lane = popped(table, 0, 1, NOW, 300)
    popped(table, 1, 1, NOW, 100)
    popped(table, 2, 1, NOW, 200)
    assert table.due(NOW + 99, 10) == []
    assert [point.start for point in table.due(NOW + 200, 10)] == [1, 2]
    assert [point.start for point in table.due(NOW + 999, 2)] == [1, 2]
    table.revived(table.due(NOW + 200, 1)[0])
    assert [point.start for point in table.due(NOW + 999, 10)] == [2, 0]
    table.ack(lane, 2, NOW, 2)
    assert [point.start for point in table.due(NOW + 999, 10)] == [0]


def test_who_leaves_twice_leaves_once(table: PopTable) -> None:
    popped(table)
    (point,) = table.due(NOW + 30_000, 1)
    table.revived(point)
    before = table.take_entries()
    table.revived(point)
    table.spilled(point)
    assert table.take_entries() == b""
    assert before


def test_dropping_a_lane_gives_back_what_is_open(table: PopTable) -> None:
    lane = popped(table)
    table.ack(lane, 0, NOW, 0)
    other = table.lane("g", "T", 1)
    assert table.hand_out(other, 0, [0], 1, NOW, 1, 0)
    assert [point.open_offsets for point in table.drop_lane(lane)] == [[1, 2]]
    assert table.next_offset(lane) == -1
    assert table.in_flight() == [LaneFigures(other, 1, 1)]
    assert table.drop_lane(lane) == []


def test_figures(table: PopTable) -> None:
    lane = popped(table)
    table.ack(lane, 0, NOW, 1)
    other = table.lane("h", "T", 0)
    assert table.hand_out(other, 0, [0], 1, NOW, 1, 0)
    assert table.in_flight() == [LaneFigures(lane, 2, 1), LaneFigures(other, 1, 1)]
    assert table.in_flight("h") == [LaneFigures(other, 1, 1)]


def test_acks_in_a_row_are_one_entry(table: PopTable) -> None:
    lane = popped(table, count=32)
    table.take_entries()
    table.ack(lane, 0, NOW, 0)
    alone = len(table.take_entries())
    for offset in range(1, 31):
        table.ack(lane, 0, NOW, offset)
    assert table.entry_bytes <= alone + 4
    assert table.entry_bytes == len(table.take_entries())
    assert table.entry_bytes == 0


def test_entries_of_others_are_passed_on(table: PopTable) -> None:
    table.note_other(200, b"block")
    popped(table)
    table.note_other(128, b"")
    seen: list[tuple[int, bytes]] = []
    made(ROOM).replay(table.take_entries(), lambda kind, body: seen.append((kind, body)))
    assert seen == [(200, b"block"), (128, b"")]
    with pytest.raises(ValueError, match="128 to 255, not 3"):
        table.note_other(3, b"")


# --- the journal --------------------------------------------------------------------------------------------------


@given(st.lists(steps(), max_size=40))
def test_the_journal_tells_the_table(drawn: list[Step]) -> None:
    table, told = made(12 * POINT_BYTES), made(ROOM)
    for step in drawn:
        step(table)
        told.replay(table.take_entries())
        assert state_of(told) == state_of(table)


@given(st.lists(st.one_of(steps(), st.booleans()), max_size=40))
def test_a_replay_begins_where_the_last_base_says(drawn: list[Step | bool]) -> None:
    """One record a step; `True` and `False` are a second that passes, with and without saved offsets."""
    table, journal, saved = made(ROOM), list[bytes](), 0
    for step in drawn:
        if isinstance(step, bool):
            saved = len(journal) if step else saved
            table.note_base(len(journal), saved)
        else:
            step(table)
        journal.append(table.take_entries())
    table.note_base(len(journal), saved)
    journal.append(table.take_entries())
    bases = [made(0).base_of(entries) for entries in journal]
    start = [base for base in bases if base is not None][-1]
    told = again(*journal[start:])
    lanes = {told.names(lane): (told.points(lane), told.next_offset(lane)) for lane in told.lanes()}
    for lane in table.lanes():
        points, following = lanes.get(table.names(lane), ([], None))
        assert points == table.points(lane)
        assert following in (None, table.next_offset(lane))
    later = again(*journal[:saved])
    for lane in table.lanes():
        if table.names(lane) not in lanes:
            assert later.next_offset(lane) == table.next_offset(lane), "what is not told anew was saved"


def test_a_base_is_told_only_when_something_changed(table: PopTable) -> None:
    assert table.note_base(0, 0), "a start tells one"
    assert not table.note_base(5, 0)
    lane = popped(table)
    assert table.note_base(7, 7)
    assert made(0).base_of(table.take_entries()) == 0
    table.ack(lane, 0, NOW, 0)
    assert table.note_base(8, 8)
    assert made(0).base_of(table.take_entries()) == 0, "told before 7, and still open"
    table.drop_lane(lane)
    assert table.note_base(9, 8)
    assert made(0).base_of(table.take_entries()) == 8
    assert made(0).base_of(b"") is None


def test_a_table_goes_on_behind_its_replay() -> None:
    before = made(ROOM)
    lane = popped(before)
    table = made(ROOM)
    table.begin(40)
    table.replay(first := before.take_entries())
    assert table.note_base(50, 50)
    assert made(0).base_of(table.take_entries()) == 40
    assert table.lane("g", "T", 1) == lane + 1
    assert table.ack(lane, 0, NOW, 0) is Ack.SET
    assert state_of(again(first, table.take_entries())) == state_of(table)
    with pytest.raises(ValueError, match="in use"):
        table.begin(0)


def test_the_limit_does_not_count_for_a_replay() -> None:
    table = made(ROOM)
    for number in range(10):
        popped(table, number, 1, NOW + number)
    small = made(4 * POINT_BYTES)
    small.replay(table.take_entries())
    assert small.in_flight() == table.in_flight()
    assert len(small.aged(0, 100)) == 7


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (b"\x00", "of kind 0 at byte 0 of 1: there is no such kind"),
        (b"\x63", "of kind 99"),
        (b"\x01\x00\x00\x00\x05ab", "LANE at byte 0 of 7: its end is missing"),
        (b"\x01\x00\x00\x00\x01\xff\x00", "not UTF-8"),
        (b"\x07\x05", "there is no lane 5"),
        (b"\x07" + b"\xff" * 10, "does not fit into 64 bits"),
        (b"\x07\xff\xff\xff\xff\x7f", "lane 34359738367 is above"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x02\x00", "flags 0 with 0 messages"),
        (b"\x02\x02\x00\x00\x00\x00\x00\x02\x01", "flags 2 with 1 messages"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x02\x41", "count 65 is above 64"),
        (b"\xc8\x05abc", "of kind 200 at byte 0 of 5: its end is missing"),
        (b"\x04\x01\x00\x00\x00\x00\x00\x00\x00", "CHANGE at byte 0 of 9: flags 1"),
    ],
)
def test_entries_that_cannot_be_read_are_refused_by_name(entries: bytes, text: str) -> None:
    with pytest.raises(DamagedJournal) as refused:
        made(ROOM).replay(entries)
    assert text in str(refused.value)


def test_entries_that_do_not_fit_are_refused_by_name(table: PopTable) -> None:
    popped(table)
    told = again(entries := table.take_entries())
    with pytest.raises(DamagedJournal, match=r"entry 1 .*start 0 of pop time \d+ is open already"):
        told.replay(entries)
    other = made(ROOM)
    other.lane("x", "Y", 0)
    with pytest.raises(DamagedJournal, match="lane 0 is told as"):
        told.replay(other.take_entries())


@settings(max_examples=300)
@given(st.lists(steps(), min_size=1, max_size=20), st.integers(0, 1 << 32))
def test_damaged_entries_never_crash(drawn: list[Step], seed: int) -> None:
    table = made(ROOM)
    for step in drawn:
        step(table)
    raw = bytearray(table.take_entries())
    chance = random.Random(seed)
    for _ in range(chance.randrange(1, 4)):
        if raw:
            at = chance.randrange(len(raw))
            raw[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    told = made(ROOM)
    with suppress(DamagedJournal):
        told.replay(bytes(raw))
    told.replay(told.take_entries())
    state_of(told)
