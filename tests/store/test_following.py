"""Following a master's log: the same bytes, queues and keys however they come, nothing torn or foreign, any crash."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pyromq.protocol.replication.classic import ChunkReader
from pyromq.store.config import FlushMode, StoreConfig
from pyromq.store.errors import StoreNotWritable
from pyromq.store.files.disk import DiskFull
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.log.following import NotFollowed
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.crash.history import read_everything
from tests.crash.lives import Story, finish
from tests.golden_ha import FILE_BYTES, STREAM_BYTES, classic_stream, log_bytes, unpack_stores
from tests.store.small import SMALL, SMALL_SYNC, bodies, by_key, message, opened, put

JAVA_PAIR = StoreConfig(commit_log_file_bytes=FILE_BYTES, queue_file_bytes=6000, index_slots=1000, index_entries=4000)


def filled(messages: int = 60, seed: int = 1) -> MessageStore:
    """A master whose log has several files, of records with and without keys."""
    story = Story(Random(seed), FlushMode.ASYNC, SimulatedDisk(), ManualClock())
    master = opened(story.disk, clock=story.clock)
    for _ in range(messages):
        story.put(master)
        story.clock.step_wall(0.001)
    return master


def log_of(store: MessageStore, start: int | None = None) -> bytes:
    """The log from its start to its end: every byte, those between files too."""
    begin = store.commit_log.start if start is None else start
    return b"".join(store.commit_log.sequence.pieces(begin, store.commit_log.end, 1 << 20))


def send(master: MessageStore, slave: MessageStore, until: int | None = None, piece: int = 1000) -> None:
    """What a master's stream does: chunks within one file, from the slave's end on."""
    end = master.commit_log.end if until is None else until
    slave.following.restart()
    while slave.following.position < end:
        position = slave.following.position
        slave.following.take(position, master.commit_log.read(position, min(piece, end - position)))


def assert_same(master: MessageStore, slave: MessageStore) -> None:
    assert (slave.commit_log.start, slave.commit_log.end) == (master.commit_log.start, master.commit_log.end)
    assert log_of(slave) == log_of(master)
    shown = read_everything(master)
    assert read_everything(slave) == shown
    assert shown


@pytest.mark.parametrize("piece", [1, 13, 1000, 8192])
def test_a_slave_has_the_same_log_queues_and_keys_however_the_bytes_come(piece: int) -> None:
    master, disk = filled(), SimulatedDisk()
    slave = opened(disk)
    send(master, slave, piece=piece)
    assert_same(master, slave)
    for record in list(read_everything(master).values())[-5:]:
        key = record.properties.split(b"KEYS\x01")[1].split(b"\x02")[0].decode()
        assert [one.body for one in by_key(slave, record.topic, key)] == [record.body]
    slave.close()
    assert verify_store(disk, SMALL).exit_code == 0


def test_a_follower_of_java_s_stream_has_java_s_log_and_queues(tmp_path: Path) -> None:
    """All kinds of messages: tags, batches, delay levels, timers, transactions; over four files."""
    master, java = unpack_stores(tmp_path / "java")
    (tmp_path / "ours").mkdir()
    store = MessageStore(RealDisk(tmp_path / "ours"), JAVA_PAIR, ManualClock())
    connection = 0
    for piece in classic_stream():
        if not piece.from_master:
            continue
        if piece.connection != connection:
            connection, reader = piece.connection, ChunkReader()
            store.following.restart()
        for chunk in reader.receive(piece.data):
            assert chunk.position == store.following.position
            store.following.take(chunk.position, chunk.data)
    assert store.commit_log.end == STREAM_BYTES
    assert log_of(store) == log_bytes(master)[:STREAM_BYTES]
    queues = 0
    for queue in store.queues:
        folder = java / "consumequeue" / queue.topic / str(queue.queue_id)
        entries = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
        ours = queue.entries.read(0, queue.next_offset)
        assert entries[: len(ours)] == ours
        queues += 1
    assert queues > 10
    store.close()
    assert verify_store(RealDisk(tmp_path / "ours"), JAVA_PAIR).exit_code == 0


def test_a_slave_begins_where_the_log_of_its_master_does() -> None:
    master, disk = filled(), SimulatedDisk()
    finish(master.drop_oldest_log_file())
    start = master.commit_log.start
    assert start
    slave = opened(disk)
    finish(slave.make_file_ahead())
    slave.following.begin_at(start)
    send(master, slave)
    assert_same(master, slave)
    slave.close()
    assert verify_store(disk, SMALL).exit_code == 0
    assert_same(master, opened(disk))


def test_a_queue_that_begins_above_0_is_read_from_there() -> None:
    """Its older records have expired at the master: the slave never had them."""
    master = opened(SimulatedDisk())
    put(master, *(b"x" * 500 for _ in range(30)))
    finish(master.drop_oldest_log_file())
    slave = opened(SimulatedDisk(), SMALL_SYNC)
    slave.following.begin_at(master.commit_log.start)
    send(master, slave)
    queue, there = slave.queues.get("T", 0), master.queues.get("T", 0)
    assert queue is not None
    assert there is not None
    assert queue.readable_end == queue.min_offset == there.min_offset > 0  # nothing is synced yet
    finish(slave.flush_log())
    assert queue.readable_end == there.readable_end
    assert bodies(slave) == bodies(master)


def test_a_topic_that_the_master_deleted_and_made_anew_starts_anew() -> None:
    master, slave = opened(SimulatedDisk()), opened(SimulatedDisk())
    put(master, "old 0", "old 1")
    put(master, "other", topic="U")
    master.queues.remove_topic("T")
    put(master, "new 0")
    send(master, slave)
    assert bodies(slave) == [b"new 0"]
    assert bodies(slave, "U") == [b"other"]


def test_half_messages_have_no_queue_entry() -> None:
    master, slave = opened(SimulatedDisk()), opened(SimulatedDisk())
    master.put([message("prepared", sys_flag=4), message("plain")])
    send(master, slave)
    assert_same(master, slave)


def test_bytes_from_another_place_are_not_taken() -> None:
    master, slave = filled(), opened(SimulatedDisk())
    send(master, slave, 4096)
    end = slave.commit_log.end
    with pytest.raises(NotFollowed, match=rf"the master goes on at {end + 1}, but the next byte of this log is"):
        slave.following.take(end + 1, b"x")
    assert slave.commit_log.end == end


def test_a_damaged_record_is_not_taken_nor_anything_behind_it() -> None:
    master, slave = filled(), opened(SimulatedDisk())
    records = sorted(read_everything(master).values(), key=lambda record: record.physical_offset)
    bad = records[len(records) // 2].physical_offset
    raw = bytearray(log_of(master))
    for flipped in (bad + 4, bad + 30, bad + 90):  # magic, its own place, body or what is around it
        raw[flipped] ^= 1
        slave.following.restart()
        with pytest.raises(NotFollowed, match=str(bad)):
            slave.following.take(slave.commit_log.end, bytes(raw[slave.commit_log.end :]))
        assert slave.commit_log.end == bad == slave.readable.value
        raw[flipped] ^= 1
    send(master, slave)
    assert_same(master, slave)


@pytest.mark.parametrize("mended", [True, False])
def test_another_file_size_is_refused_by_name(mended: bool) -> None:
    master = filled(30)
    slave = opened(SimulatedDisk(), replace(SMALL, commit_log_file_bytes=4096 if mended else 16384))
    with pytest.raises(NotFollowed, match=r"mappedFileSizeCommitLog|leaves no room"):
        send(master, slave)


def test_zeroes_are_no_records() -> None:
    slave = opened(SimulatedDisk())
    with pytest.raises(NotFollowed, match="no record begins at 0"):
        slave.following.take(0, bytes(100))


def test_a_full_disk_takes_nothing_and_goes_on_when_there_is_room() -> None:
    master, disk = filled(), SimulatedDisk(capacity=60_000)
    slave = opened(disk)
    with pytest.raises(DiskFull):
        send(master, slave)
    assert log_of(slave) == log_of(master)[: slave.commit_log.end]
    disk.capacity = 1 << 40
    send(master, slave)
    assert_same(master, slave)


def test_where_records_have_their_own_crc_is_noted_as_it_changes() -> None:
    """A master that was of Java's before: its records have none, and must not count as damaged."""
    disk, slave_disk, clock = SimulatedDisk(), SimulatedDisk(), ManualClock()
    for body in ("without", "with", "without again"):
        clock.step_wall(1)
        again = opened(disk, replace(SMALL, whole_record_crc=body == "with"), clock)
        put(again, body)
        if body != "without again":
            again.close()
    slave = opened(slave_disk)
    send(again, slave)
    assert_same(again, slave)
    ranges = slave.commit_log.whole_crc
    assert ranges.open_from is None
    assert len(ranges.closed) == 1
    slave = opened(slave_disk.kill())
    assert not slave.recovery.damage
    assert bodies(slave) == bodies(again)


@pytest.mark.parametrize("config", [SMALL, SMALL_SYNC], ids=["async", "sync"])
def test_a_fault_in_any_operation_loses_nothing_that_was_synced_and_the_stream_goes_on(config: StoreConfig) -> None:
    """Not a sample: power cut and kill in each call that changes the disk, from the first opening to the clean stop."""
    master = filled(10, seed=3)
    whole = log_of(master)

    def life(disk: SimulatedDisk) -> tuple[SimulatedDisk, int]:
        synced = 0
        with suppress(PowerCut, StoreNotWritable):
            slave = opened(disk, config)
            while (at := slave.following.position) < len(whole):
                slave.following.take(at, master.commit_log.read(at, min(700, len(whole) - at)))
                if at % 3 == 0:
                    finish(slave.flush_log() if at % 2 else slave.flush_all())
                    synced = slave.flushed.value
            slave.close()
            synced = len(whole)
        return disk, synced

    operations = life(SimulatedDisk())[0].operations
    assert operations > 100
    for cut in range(1, operations + 1):
        for power in (False, True):
            disk = SimulatedDisk()
            disk.cut_power_after(cut)
            disk, synced = life(disk)
            disk = disk.crash(cut) if power else disk.kill()
            slave = opened(disk, config)
            assert not slave.recovery.damage
            assert slave.commit_log.end >= synced
            assert log_of(slave) == whole[: slave.commit_log.end]
            send(master, slave)
            finish(slave.flush_log())
            assert_same(master, slave)
            slave.close()
            assert verify_store(disk, config).exit_code == 0
