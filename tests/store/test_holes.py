"""A page of zeroes inside a queue file: readers go on behind it, one loud line says so, a rebuild brings it back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.model.java_hash import java_hash
from pyromq.protocol.record import Record
from pyromq.store.log.reader import GetStatus
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.findings import Level
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, bodies, opened
from tests.store.test_queues import placed, table

LARGE = replace(SMALL, queue_file_bytes=20 * 20_000, commit_log_file_bytes=1 << 20)
COUNT = 600
QUEUE = f"consumequeue/T/0/{0:020d}"


def filled(count: int = COUNT) -> tuple[SimulatedDisk, MessageStore]:
    disk = SimulatedDisk()
    store = opened(disk, LARGE)
    tag = b"TAGS\x01red\x02"
    store.put([Record(topic="T", queue_id=0, body=b"%d" % number, properties=tag) for number in range(count)])
    return disk, store


def zero(disk: SimulatedDisk, first: int, until: int) -> None:
    disk.open(QUEUE).pwrite(first * 20, bytes((until - first) * 20))


def expected(first: int, until: int, count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(count) if not first <= number < until]


@pytest.mark.parametrize(("first", "until"), [(205, 410), (0, 1), (7, 8), (100, COUNT - 1)])
def test_readers_go_on_behind_it_and_are_told_once(first: int, until: int, caplog: pytest.LogCaptureFixture) -> None:
    disk, store = filled()
    zero(disk, first, until)
    assert bodies(store) == expected(first, until)
    assert bodies(store) == expected(first, until)
    (line,) = [line.getMessage() for line in caplog.records if "QUEUE ENTRIES ARE LOST" in line.getMessage()]
    assert "store rebuild" in line
    assert f"offset={first}" in line
    assert f"until={until}" in line


def test_a_hole_longer_than_one_look_is_left_in_several() -> None:
    disk, store = filled(12_000)
    zero(disk, 10, 11_000)
    assert bodies(store) == expected(10, 11_000, 12_000)


def test_a_filtered_get_leaves_it_too() -> None:
    disk, store = filled()
    zero(disk, 205, 410)
    red, at, found = {java_hash("red")}, 0, 0
    while at < COUNT:
        got = store.reader.select("T", 0, at, max_count=32, max_bytes=1 << 20, tag_codes=red, deep=COUNT)
        assert got.next_offset > at
        at, found = got.next_offset, found + len(got.ranges)
    assert found == COUNT - 205


def test_the_end_of_a_queue_is_no_hole(caplog: pytest.LogCaptureFixture) -> None:
    _, store = filled()
    got = store.reader.select("T", 0, COUNT, max_count=32, max_bytes=1 << 20)
    assert (got.status, got.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, COUNT)
    assert store.reader.select("T", 0, 5, max_count=0, max_bytes=1 << 20).next_offset == 5
    assert not any("LOST" in line.getMessage() for line in caplog.records)


def test_a_rebuild_brings_back_what_was_in_it() -> None:
    disk, store = filled()
    store.close()
    zero(disk, 205, 410)
    assert verify_store(disk, LARGE).exit_code == Level.DAMAGE
    rebuild_store(disk, LARGE, ManualClock(), 1)
    assert bodies(opened(disk, LARGE)) == expected(0, 0)
    assert verify_store(disk, LARGE).exit_code == Level.REPAIRABLE  # it is open: `abort` is there


@pytest.mark.parametrize(("first", "until"), [(3, 12), (1, 2), (10, 19)])
def test_in_a_batch_queue_the_rest_is_found_as_well(first: int, until: int) -> None:
    disk = SimulatedDisk()
    queue = table(disk, "T").get_or_make("T", 0)
    queue.accept([placed(number * 3, number * 100, 3, time=number) for number in range(20)])
    queue.tail.readable_end = queue.next_offset
    for number in range(first, until):
        disk.open(f"batchconsumequeue/T/0/{number // 4 * 184:020d}").pwrite(number % 4 * 46, bytes(46))
    found: list[int] = []
    at = 0
    while at < queue.readable_end:
        picked = queue.pick(at, None, 6, 1 << 20, 0, 800)
        assert picked.next_offset > at
        found += [one.position for one in picked.ranges]
        at = picked.next_offset
    assert found == [number * 100 for number in range(20) if not first <= number < until]
