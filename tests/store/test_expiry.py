"""Retention on a whole store: files go, queues and index follow, and what is left opens again."""

from __future__ import annotations

import pytest

from pyromq.store.log.reader import GetStatus
from pyromq.store.log.retention import DiskSpaceGate, Retention, RetentionConfig
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, bodies, by_key, message

WHOLE = [b"%03d" % number * 100 for number in range(100)]  # six log files


def filled(disk: SimulatedDisk, clock: ManualClock) -> MessageStore:
    store = MessageStore(disk, SMALL, clock)
    for number, body in enumerate(WHOLE):
        store.put([message(body, keys=f"k{number}")])
    store.put([message("only here", topic="Old")])
    return store


async def expire(store: MessageStore, disk: SimulatedDisk, clock: ManualClock, keep_files: int) -> int:
    """Rounds until the log fits; the number of files that went."""
    config = RetentionConfig(max_log_bytes=keep_files * SMALL.commit_log_file_bytes, pause_ms=0)
    retention = Retention(store, DiskSpaceGate(disk, config, clock), store.files_in_use, config, clock)
    return await retention.round()


@pytest.fixture
async def expired() -> tuple[SimulatedDisk, ManualClock, MessageStore]:
    disk, clock = SimulatedDisk(), ManualClock()
    store = filled(disk, clock)
    assert await expire(store, disk, clock, keep_files=2) == 4
    return disk, clock, store


async def test_queues_and_index_follow_the_start_of_the_log(
    expired: tuple[SimulatedDisk, ManualClock, MessageStore],
) -> None:
    disk, _, store = expired
    assert len(disk.list("commitlog")) == 2
    queue = store.queues.get("T", 0)
    assert queue is not None
    assert 0 < queue.min_offset < queue.next_offset == 100
    first = queue.entry_at(queue.min_offset)
    assert first is not None
    assert first.position >= store.commit_log.start
    assert bodies(store) == WHOLE[queue.min_offset :]
    assert store.reader.select("T", 0, 0, max_count=1, max_bytes=1).status is GetStatus.OFFSET_TOO_SMALL
    assert by_key(store, "T", "k0") == []
    assert [record.body for record in by_key(store, "T", "k99")] == [WHOLE[99]]
    assert len(disk.list("consumequeue/T/0")) < 3


@pytest.mark.parametrize("clean", [True, False])
async def test_what_is_left_opens_again(expired: tuple[SimulatedDisk, ManualClock, MessageStore], clean: bool) -> None:
    disk, clock, store = expired
    queue = store.queues.get("T", 0)
    assert queue is not None
    if clean:
        store.close()
    else:
        disk = disk.kill()
    again = MessageStore(disk, SMALL, clock)
    loaded = again.queues.get("T", 0)
    assert loaded is not None
    assert (loaded.min_offset, loaded.next_offset) == (queue.min_offset, 100)
    assert bodies(again) == WHOLE[queue.min_offset :]
    again.put([message("next")])
    again.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


async def test_a_queue_whose_records_are_all_gone_keeps_its_offset() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    store = MessageStore(disk, SMALL, clock)
    store.put([message("only here", topic="Old")])
    for body in WHOLE:
        store.put([message(body)])
    await expire(store, disk, clock, keep_files=1)
    store.close()
    again = MessageStore(disk, SMALL, clock)
    queue = again.queues.get("Old", 0)
    assert queue is not None
    assert (queue.min_offset, queue.next_offset) == (1, 1)
    assert again.put([message("new", topic="Old")])[0].queue_offset == 1
    assert bodies(again, "Old") == [b"new"]


async def test_queues_lost_after_expiry_are_rebuilt_from_where_the_log_begins(
    expired: tuple[SimulatedDisk, ManualClock, MessageStore],
) -> None:
    disk, clock, store = expired
    queue = store.queues.get("T", 0)
    assert queue is not None
    store.close()
    for name in disk.list("consumequeue/T/0"):
        disk.remove(f"consumequeue/T/0/{name}")
    again = MessageStore(disk, SMALL, clock)
    rebuilt = again.queues.get("T", 0)
    assert rebuilt is not None
    assert (rebuilt.min_offset, rebuilt.next_offset) == (queue.min_offset, 100)
    assert bodies(again) == WHOLE[queue.min_offset :]


async def test_the_file_that_is_written_never_goes() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    store = MessageStore(disk, SMALL, clock)
    store.put([message("a")])
    for _ in range(2):
        await store.drop_oldest_log_file()
    assert bodies(store) == [b"a"]
