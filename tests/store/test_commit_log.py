"""The commit log alone: files, blank records, order of store times, refusals."""

from __future__ import annotations

import pytest

from pyromq.kernel.records import Placed
from pyromq.model.message import SysFlag
from pyromq.protocol.record import BLANK, MAGIC_BLANK, Record, decode_record
from pyromq.store.config import StoreConfig
from pyromq.store.errors import RecordTooLarge
from pyromq.store.files.disk import DiskFull
from pyromq.store.files.free_space import FreeSpace
from pyromq.store.files.open_files import UnsyncedFiles
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.watermarks import Watermarks
from pyromq.store.log.writer import Writer
from pyromq.store.queues.queue_table import QueueTable
from pyromq.testing.simulated_disk import SimulatedDisk

CONFIG = StoreConfig(commit_log_file_bytes=4096, whole_record_crc=False)
FIRST, SECOND = "commitlog/00000000000000000000", "commitlog/00000000000000004096"


def record(size: int) -> Record:
    """A record of exactly this many bytes."""
    return Record(topic="T", queue_id=0, body=bytes(size - 92), sys_flag=SysFlag.TRANSACTION_PREPARED)


class Log(CommitLog):
    """With a writer. The records are prepared ones, which are in the log alone."""

    def append(self, records: list[Record], now_ms: int, *, together: bool = False) -> list[Placed]:
        queues = QueueTable(self._disk, self._files, UnsyncedFiles(), CONFIG)
        watermarks = Watermarks(self.end, CONFIG.flush_mode)
        self.writer = Writer(CONFIG, self, queues, None, watermarks, FreeSpace(self._disk), lambda: now_ms)
        return self.writer.put(records, together=together)


def made(disk: SimulatedDisk | None = None) -> Log:
    log = Log(disk or SimulatedDisk(), CONFIG)
    log.load()
    return log


def positions(places: list[Placed]) -> list[int]:
    return [place.position for place in places]


def test_files_are_allocated_whole_before_the_first_byte() -> None:
    disk = SimulatedDisk()
    made(disk).append([record(100)], 1)
    assert disk.size(FIRST) == 4096
    assert disk.usage().used == 4096


@pytest.mark.parametrize(("size", "same_file"), [(4096 - 100 - 8, True), (4096 - 100 - 7, False)])
def test_a_record_needs_eight_bytes_behind_it(size: int, same_file: bool) -> None:
    log = made()
    log.append([record(100)], 1)
    (place,) = log.append([record(size)], 1)
    assert place.position == (100 if same_file else 4096)
    if not same_file:
        assert BLANK.unpack(log.read(100, 8)) == (3996, MAGIC_BLANK)


def test_a_burst_goes_on_in_the_next_files() -> None:
    log = made()
    places = log.append([record(1500) for _ in range(5)], 1)
    assert positions(places) == [0, 1500, 4096, 5596, 8192]
    for place in places:
        assert decode_record(log.read(place.position, place.size)).physical_offset == place.position


def test_a_batch_stays_together() -> None:
    log = made()
    log.append([record(3000)], 1)
    assert positions(log.append([record(600), record(600)], 1, together=True)) == [4096, 4696]


def test_a_record_larger_than_a_file_is_refused_before_anything_is_written() -> None:
    disk = SimulatedDisk()
    log = made(disk)
    log.append([record(100)], 1)
    operations = disk.operations
    with pytest.raises(RecordTooLarge, match="4089 bytes, a commit log file has room for 4088"):
        log.append([record(50 + 92), record(4089)], 1)
    with pytest.raises(RecordTooLarge, match="the batch takes 4200"):
        log.append([record(2100), record(2100)], 1, together=True)
    assert disk.operations == operations
    assert log.end == 100


def test_store_time_never_goes_back() -> None:
    log = made()
    times = [log.append([record(100)], now)[0].store_time for now in (50, 40, 60)]
    assert times == [50, 50, 60]


def make_ahead(log: Log) -> int | None:
    base = log.next_base
    if base is not None:
        log.make_file(base)
        log.adopt(base)
    return base


def test_the_next_file_is_made_ahead_and_removed_at_the_end() -> None:
    disk = SimulatedDisk()
    log = made(disk)
    log.append([record(100)], 1)
    assert make_ahead(log) == 4096
    assert log.next_base is None
    operations = disk.operations
    log.append([record(4000)], 1)
    assert disk.operations == operations + 2  # the blank record and the burst: nobody waited for allocation
    assert make_ahead(log) == 8192
    log.close()
    assert disk.list("commitlog") == [FIRST[-20:], SECOND[-20:]]


def test_a_full_disk_refuses_before_anything_is_written_and_recovers() -> None:
    disk = SimulatedDisk(capacity=4096)
    log = made(disk)
    log.append([record(3000)], 1)
    with pytest.raises(DiskFull):
        log.append([record(3000)], 1)
    assert log.writer.is_writable
    assert log.end == 3000
    disk.capacity = 1 << 20
    assert positions(log.append([record(3000)], 1)) == [4096]


def test_a_flush_names_the_files_that_hold_the_range() -> None:
    log = made()
    log.append([record(3000), record(3000), record(3000)], 1)
    assert log.names_between(0, log.end)[:2] == [FIRST, SECOND]
    assert log.names_between(4096, log.end) == [SECOND, "commitlog/00000000000000008192"]
    assert log.names_between(log.end, log.end) == ["commitlog/00000000000000008192"]


def test_reading_what_is_not_there() -> None:
    log = made()
    log.append([record(100)], 7)
    assert log.read(9000, 10) == b""
    assert log.store_time_at(0) == 7
    assert log.store_time_at(50) is None
    assert log.store_time_at(4090) is None
    assert log.read_apart([(0, 4), (8192, 4)]) == [b"\0\0\0d", b""]
