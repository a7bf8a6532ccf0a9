"""The front door: put and get, what is readable when, refusals, and the end of writing after a failed sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from pyromq.kernel.state import QueueTail
from pyromq.model.message import Property
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import Record
from pyromq.store.errors import RecordTooLarge, StoreError, StoreNotWritable
from pyromq.store.files.disk import DiskFull, StoreLocked
from pyromq.store.log.reader import GetStatus
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk, SimulatedFile
from tests.store.small import SMALL, SMALL_SYNC, bodies, by_key, flip, log_file, message, opened, put
from tests.wire import decode_messages

T = TypeVar("T")


def test_what_is_put_is_got_in_order() -> None:
    store = opened(SimulatedDisk())
    put(store, "a", "b")
    put(store, "c", queue_id=1)
    put(store, "d")
    assert (bodies(store), bodies(store, queue_id=1)) == ([b"a", b"b", b"d"], [b"c"])
    assert [place.queue_offset for place in store.put([message("e"), message("f", queue_id=1)])] == [3, 1]


def test_a_closed_store_opens_with_everything_in_it() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(100):
        put(store, f"message {number}" * 5)
    store.close()
    again = opened(disk)
    assert again.recovery.clean_stop
    assert bodies(again) == [(f"message {number}" * 5).encode() for number in range(100)]
    assert again.commit_log.end == store.commit_log.end
    put(again, "next")
    assert again.queues.get("T", 0).next_offset == 101  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (0, GetStatus.FOUND, 3),
        (2, GetStatus.FOUND, 3),
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (9, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
def test_offsets_that_are_wrong_are_corrected(offset: int, status: GetStatus, next_offset: int) -> None:
    store = opened(SimulatedDisk())
    put(store, "a", "b", "c")
    selection = store.reader.select("T", 0, offset, max_count=32, max_bytes=1000)
    assert (selection.status, selection.next_offset) == (status, next_offset)


def test_queues_that_are_not_there() -> None:
    store = opened(SimulatedDisk())
    store.put([message("half", sys_flag=4)])
    assert store.reader.select("T", 1, 0, max_count=1, max_bytes=1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert store.reader.offset_by_time("T", 1, 0) == 0
    assert store.reader.store_time("T", 1, 0) == -1


def test_transactions_not_committed_take_no_queue_offset() -> None:
    store = opened(SimulatedDisk())
    places = store.put([message("half", sys_flag=4), message("plain"), message("rollback", sys_flag=12)])
    assert [place.queue_offset for place in places] == [0, 0, 0]
    assert bodies(store) == [b"plain"]


def test_a_batch_becomes_records_of_its_own_in_one_file() -> None:
    store = opened(SimulatedDisk())
    put(store, bytes(7200))
    body = encode_batch([BatchEntry(bytes(400), 5, b"KEYS\x01k1\x02"), BatchEntry(bytes(400), 6)])
    places = store.put_batch(Record(topic="T", queue_id=0, body=body, born_timestamp=9))
    assert [place.queue_offset for place in places] == [1, 2]
    assert places[0].position == 8192
    records = [store.reader.record_at(place.position) for place in places]
    assert [(r.flag, r.born_timestamp) for r in records if r is not None] == [(5, 9), (6, 9)]
    assert len(by_key(store, "T", "k1")) == 1


def test_an_inner_batch_is_one_record_that_takes_several_offsets() -> None:
    store = MessageStore(SimulatedDisk(), SMALL, ManualClock(), is_batch_topic=lambda topic: topic == "B")
    inner = encode_batch([BatchEntry(b"a"), BatchEntry(b"b")])
    for _ in range(2):
        store.put([Record(topic="B", queue_id=0, body=inner, sys_flag=192, properties=b"INNER_NUM\x012\x02")])
    store.put([Record(topic="B", queue_id=0, body=b"single")])
    selection = store.reader.select("B", 0, 0, max_count=32, max_bytes=1 << 20)
    messages = decode_messages(b"".join(store.reader.read_cold(selection.ranges)))
    assert [(m.queue_offset, m.body) for m in messages] == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b"), (4, b"single")]
    second = store.reader.record_at(selection.ranges[1].position)
    assert second is not None
    assert decode_properties(second.properties)[Property.INNER_BASE] == "2"
    with pytest.raises(StoreError, match="INNER_NUM"):
        store.put([Record(topic="B", queue_id=0, body=inner, sys_flag=192)])
    put(store, "plain")
    with pytest.raises(StoreError, match="BatchCQ"):
        store.put([Record(topic="T", queue_id=0, body=inner, sys_flag=192, properties=b"INNER_NUM\x012\x02")])


def test_by_key_tells_equal_hashes_apart_and_answers_in_order() -> None:
    store = opened(SimulatedDisk())
    for key in ("Aa", "BB", "Aa"):  # these two have one hash
        store.put([message(key, keys=key)])
    assert [record.body for record in by_key(store, "T", "Aa")] == [b"Aa", b"Aa"]
    assert [record.body for record in by_key(store, "T", "BB")] == [b"BB"]
    assert by_key(store, "T", "none") == []


def test_a_huge_number_of_wanted_answers_is_bounded_7948() -> None:
    store = opened(SimulatedDisk())
    for _ in range(70):
        store.put([message("m", keys="k")])
    assert len(by_key(store, "T", "k", limit=1 << 31)) == 64


def test_records_too_large_are_refused_before_anything_is_written() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    with pytest.raises(RecordTooLarge, match="mappedFileSizeCommitLog"):
        put(store, "small", bytes(8192))
    with pytest.raises(RecordTooLarge, match="maxMessageSize"):
        put(store, bytes((4 << 20) + 1))
    assert store.commit_log.end == 0
    put(store, "next")
    assert bodies(store) == [b"next"]


def test_two_writers_never_share_a_store() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    with pytest.raises(StoreLocked):
        opened(disk)
    store.close()
    opened(disk).close()


def test_a_full_disk_refuses_writes_keeps_reads_and_recovers_by_itself_alibaba_331() -> None:
    disk = SimulatedDisk(capacity=9 * 4096)
    store = opened(disk)

    def put_until_full() -> None:
        while True:
            put(store, bytes(1000))

    with pytest.raises(DiskFull):
        put_until_full()
    count = len(bodies(store))
    assert count > 0
    assert store.is_writable
    disk.capacity = 1 << 20
    put(store, "after")
    assert bodies(store)[-1] == b"after"
    store.close()
    assert len(bodies(opened(disk))) == count + 1


def test_a_damaged_record_is_never_handed_out() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    positions = put(store, "a" * 50, "b" * 50, "c" * 50)
    flip(disk, positions[1] + 90)
    assert bodies(store) == [b"a" * 50, b"c" * 50]
    assert store.reader.record_at(positions[1]) is None


def test_a_medium_that_cannot_be_read_costs_its_records_alone() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *(bytes([65 + number]) * 1500 for number in range(4)))
    disk.fail_reads(log_file(0), 2100)
    selection = store.reader.select("T", 0, 0, max_count=32, max_bytes=1 << 20)
    assert store.reader.read_resident(selection.ranges) is None
    assert [raw[28:36] for raw in store.reader.read_cold(selection.ranges)] == [
        found.position.to_bytes(8, "big") for found in selection.ranges if found.queue_offset != 1
    ]
    assert store.reader.record_at(selection.ranges[1].position) is None


async def test_cold_queue_entries_and_records_are_read_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    async def noted(call: Callable[[], T]) -> T:
        calls.append("off the loop")
        return call()

    store = MessageStore(SimulatedDisk(), SMALL, ManualClock(), noted)
    put(store, "a", "b")
    selection = await store.select("T", 0, 0, max_count=32, max_bytes=1000)
    assert len(await store.read(selection)) == 2
    assert calls == []
    monkeypatch.setattr(SimulatedFile, "pread_resident", lambda *_: None)
    selection = await store.select("T", 0, 0, max_count=32, max_bytes=1000)
    assert len(await store.read(selection)) == 2
    assert calls == ["off the loop"] * 2


# -- what is readable, and when ----------------------------------------------------------------------------------------


def test_under_async_flush_a_message_is_readable_at_once() -> None:
    store = opened(SimulatedDisk())
    arrived: list[QueueTail] = []
    store.on_arrival("T", arrived.append)
    put(store, "a")
    assert bodies(store) == [b"a"]
    assert [queue.queue_id for queue in arrived] == [0]
    assert store.flushed.value < store.readable.value == store.commit_log.end


async def test_under_sync_flush_nothing_is_readable_before_it_is_synced_8239_8240_2830() -> None:
    store = opened(SimulatedDisk(), SMALL_SYNC)
    arrived: list[QueueTail] = []
    store.on_arrival("T", arrived.append)
    (position,) = put(store, "a")
    store.put([message("b", keys="k")])
    assert bodies(store) == []
    assert store.reader.record_at(position) is None
    assert by_key(store, "T", "k") == []
    assert arrived == []
    await store.flush_log()
    assert bodies(store) == [b"a", b"b"]
    assert len(by_key(store, "T", "k")) == 1
    assert len(arrived) == 1


async def test_waiting_for_readable_ends_when_the_sync_is_done() -> None:
    store = opened(SimulatedDisk(), SMALL_SYNC)
    end = store.put([message("a")])[-1].end
    waiting = asyncio.create_task(store.readable.reached(end))
    await asyncio.sleep(0)
    assert not waiting.done()
    await store.flush_log()
    await waiting


async def test_a_failed_sync_ends_writing_and_nobody_is_told_that_it_is_safe_2706_3129_3349_5235_9713() -> None:
    disk = SimulatedDisk()
    store = opened(disk, SMALL_SYNC)
    put(store, "before")
    await store.flush_log()
    end = store.put([message("lost")])[-1].end
    waiting = asyncio.create_task(store.readable.reached(end))
    await asyncio.sleep(0)
    disk.fail_sync_once("commitlog")
    with pytest.raises(StoreNotWritable):
        await store.flush_log()
    with pytest.raises(StoreNotWritable):
        await waiting
    assert store.flushed.value < end
    with pytest.raises(StoreNotWritable, match="a sync failed"):
        put(store, "refused")
    assert bodies(store) == [b"before"]  # what was acked stays readable
    store.close()
    assert opened(disk, SMALL_SYNC).recovery.clean_stop is False


async def test_the_watermarks_never_pass_what_was_synced_when_queues_fail_to_sync() -> None:
    disk = SimulatedDisk()
    store = opened(disk, SMALL_SYNC)
    put(store, "a")
    disk.fail_sync_once("consumequeue")
    with pytest.raises(StoreNotWritable):
        await store.flush_all()
    assert store.flushed.value == 0
    assert not store.is_writable
