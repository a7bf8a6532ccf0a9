"""Power cuts, kills, failing syncs and full disks on the simulated disk: CI's share of the seeds.

`python -m tests.crash.campaign` tells 100,000 of them.
"""

from __future__ import annotations

from random import Random

import pytest

from pyromq.protocol.record import Record, decode_record
from pyromq.store.config import FlushMode
from pyromq.store.errors import StoreNotWritable
from pyromq.store.files.disk import DiskFull
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.crash.history import Broken, read_everything
from tests.crash.lives import Story, finish, small_config, tell

SEEDS = 400
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_every_story_keeps_the_promises(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        tell(seed)


def test_a_story_is_the_same_each_time() -> None:
    assert tell(4).log == tell(4).log


def filled(mode: FlushMode, seed: int) -> tuple[Story, MessageStore]:
    clock = ManualClock()
    story = Story(Random(seed), mode, SimulatedDisk(now_ms=clock.now_ms), clock)
    store = story.open()
    for _ in range(25):
        story.put(store)
    return story, store


@pytest.mark.parametrize("seed", [19321, 20843, 38374, 40688, 157198])
def test_stories_that_the_campaign_once_found_wrong(seed: int) -> None:
    tell(seed)


@pytest.mark.parametrize("mode", list(FlushMode))
def test_kill_loses_nothing(mode: FlushMode) -> None:
    for seed in range(10):
        story, _ = filled(mode, seed)
        story.killed()
        count = len(story.history.puts)
        story.open()
        assert len(story.history.puts) == count


def test_power_cut_under_sync_flush_loses_nothing_acked() -> None:
    for seed in range(20):
        story, store = filled(FlushMode.SYNC, seed)
        story.flush_log(store)
        count = len(story.history.puts)
        story.power_goes()
        story.open()
        assert len(story.history.puts) == count


def test_power_cut_under_async_flush_loses_only_what_came_after_the_last_flush() -> None:
    lost_something = False
    for seed in range(20):
        story, store = filled(FlushMode.ASYNC, seed)
        story.flush_log(store)
        flushed = len(story.history.puts)
        for _ in range(5):
            story.put(store)
        count = len(story.history.puts)
        story.power_goes()
        story.open()
        assert flushed <= len(story.history.puts) <= count
        lost_something |= len(story.history.puts) < count
    assert lost_something  # so this test would notice if nothing were ever lost


def test_a_power_cut_in_every_operation_of_one_life() -> None:
    """Not a sample: the power goes in each call that changes the disk, from the first opening to the clean stop."""

    def life(cut: int | None, seed: int) -> Story:
        clock = ManualClock()
        story = Story(Random(7), FlushMode.SYNC, SimulatedDisk(now_ms=clock.now_ms), clock)
        if cut is not None:
            story.disk.cut_power_after(cut)
        try:
            store = story.open()
            for _ in range(8):
                story.put(store)
                story.flush_log(store)
            story.flush_all(store)
            story.put(store)
            story.close(store)
        except PowerCut:
            story.disk = story.disk.crash(seed)
            story.promised = story.synced
        return story

    operations = life(None, 0).disk.operations
    assert operations > 50
    for cut in range(1, operations + 1):
        for seed in range(3):
            story = life(cut, seed * 1000 + cut)
            story.close(story.open())
            assert verify_store(story.disk, story.config).exit_code == 0


def test_flipped_bits_cost_their_record_alone_and_are_reported() -> None:
    """Nothing damaged is ever shown, nothing else is lost, and verify names the damage."""
    damaged = 0
    for seed in range(60):
        story, store = filled(FlushMode.SYNC, seed)
        story.close(store)
        rng = Random(seed)
        name = rng.choice([f"commitlog/{file}" for file in story.disk.list("commitlog")])
        offset = rng.randrange(story.disk.size(name))
        story.disk.flip_bit(name, offset, rng.randrange(8))
        position = int(name.rpartition("/")[2]) + offset
        hit = [put for put in story.history.puts if put.position <= position < put.end]
        store = MessageStore(story.disk, story.config, story.clock)
        shown = {record.body: record for record in everything_but_gaps(store)}
        store.close()
        assert shown.keys() <= {put.body for put in story.history.puts}
        assert shown.keys() >= {put.body for put in story.history.puts if put not in hit}
        for put in hit:
            if put.body in shown:  # the bit was in the CRC itself: all that was sent is as it was
                assert shown[put.body].properties.startswith(put.properties)
            else:
                damaged += 1
                assert verify_store(story.disk, story.config).counts[Level.DAMAGE]
    assert damaged > 20


def everything_but_gaps(store: MessageStore) -> list[Record]:
    """What a consumer is shown if it goes on behind what is missing."""
    shown = []
    for queue in store.queues:
        offset = queue.min_offset
        while offset < queue.readable_end:
            picked = store.reader.select(queue.topic, queue.queue_id, offset, max_count=32, max_bytes=1 << 20)
            records = [decode_record(raw) for raw in store.reader.read_cold(picked.ranges)]
            assert {(record.topic, record.queue_id) for record in records} <= {(queue.topic, queue.queue_id)}
            shown += records
            assert picked.next_offset > offset
            offset = picked.next_offset
    return shown


def test_the_check_itself_notices_a_gap() -> None:
    story, store = filled(FlushMode.SYNC, 1)
    story.flush_all(store)
    put = story.history.puts[3]
    story.disk.flip_bit(
        store.commit_log.sequence.name(store.commit_log.sequence.base_of(put.position)),
        put.position % small_config().commit_log_file_bytes + 100,
    )
    with pytest.raises(Broken):
        read_everything(store)


def test_a_failed_sync_ends_writing_and_is_never_acked() -> None:
    story, store = filled(FlushMode.SYNC, 3)
    story.flush_log(store)
    flushed = store.flushed.value
    story.put(store)
    story.disk.fail_sync_once("commitlog")
    with pytest.raises(StoreNotWritable):
        finish(store.flush_log())
    assert store.flushed.value == flushed
    with pytest.raises(StoreNotWritable):
        story.put(store)
    with pytest.raises(StoreNotWritable):
        finish(store.flushed.reached(flushed + 1))
    assert read_everything(store)  # what was acked stays readable
    story.power_goes()
    story.open()


def test_a_full_disk_refuses_and_goes_on_when_there_is_room() -> None:
    story, store = filled(FlushMode.SYNC, 5)
    story.disk.capacity = story.disk.usage().used
    records = [story.record("orders", 0) for _ in range(20)]
    refused = 0
    for record in records:
        try:
            places = store.put([record])
        except DiskFull:
            refused += 1
        else:
            story.history.add(record, places[0].queue_offset, places[0].position, places[0].end)
    assert refused
    assert read_everything(store) is not None
    story.disk.capacity = 1 << 40
    story.put(store)
    story.flush_all(store)
    story.power_goes()
    story.open()
