"""What must not grow with the store: the work of opening it, and memory per queue."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pyromq.kernel.records import Placed
from pyromq.store.config import StoreConfig
from pyromq.store.files.disk import Disk, make_folder_durably, replace_durably
from pyromq.store.files.file_sequence import segment_name
from pyromq.store.files.open_files import OpenFiles, UnsyncedFiles
from pyromq.store.files.real_disk import RealDisk, RealFile
from pyromq.store.message_store import MessageStore
from pyromq.store.queues.queue_table import RESERVED_FILE, QueueTable, read_reserved
from pyromq.store.recovery.catalogue import CATALOGUE_FILE, read_catalogue
from pyromq.store.timer.timer_state import STATE_FILE, read_state
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import bodies, message

FILE_BYTES = 64 << 20
LARGE = StoreConfig(commit_log_file_bytes=FILE_BYTES, index_slots=100, index_entries=400)


def bytes_read_at_open(root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    total = 0
    pread = RealFile.pread

    def counted(file: RealFile, offset: int, length: int) -> bytes:
        nonlocal total
        data = pread(file, offset, length)
        total += len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "pread", counted)
        store = MessageStore(RealDisk(root), LARGE, ManualClock())
    assert store.recovery.clean_stop
    assert len(bodies(store)) == 100
    store.close()
    return total


@pytest.mark.parametrize("older_files", [15, 1599])
def test_opening_a_store_of_100_gib_reads_no_more_than_one_of_1_gib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older_files: int
) -> None:
    """Sparse: the older files hold nothing, and nobody may look."""
    folder = tmp_path / "commitlog"
    folder.mkdir()
    sparse(folder, older_files)
    store = MessageStore(RealDisk(tmp_path), LARGE, ManualClock())
    for number in range(100):
        store.put([message(b"%d" % number, keys=f"k{number}")])
    store.close()
    for number in range(older_files):
        sparse(folder, number)
    assert bytes_read_at_open(tmp_path, monkeypatch) < 3 << 20  # windows of 1 MiB at the end of the log


def sparse(folder: Path, number: int) -> None:
    with (folder / segment_name(number * FILE_BYTES)).open("wb") as file:
        file.truncate(FILE_BYTES)


def test_state_of_a_queue_takes_about_a_kilobyte(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    config = StoreConfig(queue_file_bytes=2000, allocation_step_bytes=4096)
    fill(QueueTable(disk, OpenFiles(disk, 16), UnsyncedFiles(), config), 1000)
    files = OpenFiles(disk, 16)
    gc.collect()
    tracemalloc.start()
    queues = QueueTable(disk, files, UnsyncedFiles(), config)
    queues.load()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    files.close()
    assert len(list(queues)) == 1000
    assert held / 1000 < 1200  # other threads of a long run are measured too


def test_the_first_message_of_a_queue_takes_a_page_of_disk_and_a_busy_queue_asks_seldom_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    files = OpenFiles(disk, 16)
    queues = QueueTable(disk, files, UnsyncedFiles(), StoreConfig())
    fill(queues, 50)
    taken = [path.stat().st_blocks * 512 for path in tmp_path.rglob("0*") if path.is_file()]
    assert len(taken) == 50
    assert max(taken) <= 4096
    asked = 0
    allocate = RealFile.allocate

    def counted(file: RealFile, offset: int, length: int) -> None:
        nonlocal asked
        asked += 1
        allocate(file, offset, length)

    monkeypatch.setattr(RealFile, "allocate", counted)
    queue = queues.get_or_make("Topic0", 0)
    for number in range(1, 30_000):
        queue.accept([Placed(number * 100, 100, "Topic0", 0, number, 0, 0, 0, b"", 1)])
    files.close()
    assert asked <= 8


def fill(queues: QueueTable, count: int) -> None:
    for number in range(count):
        topic = f"Topic{number}"
        entries: Sequence[Placed] = [Placed(number * 100, 100, topic, 0, 0, 0, 0, 0, b"", 1)]
        queues.get_or_make(topic, 0).accept(entries)


@pytest.mark.parametrize(
    ("name", "begin", "read"),
    [
        (CATALOGUE_FILE, b"", read_catalogue),
        (STATE_FILE, b"", read_state),
        (RESERVED_FILE, b"[", read_reserved),
    ],
)
def test_a_file_of_ours_that_is_nested_without_end_is_one_that_cannot_be_read(
    name: str, begin: bytes, read: Callable[[Disk], object]
) -> None:
    disk = SimulatedDisk()
    make_folder_durably(disk, "pyromq")
    replace_durably(disk, name, begin + b'{"x":' * 100_000)
    assert not read(disk)
