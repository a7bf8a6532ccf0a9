"""Nobody has a descriptor left: a flush waits for one, the writer closes files of its own, and nothing fails."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyromq.machine.descriptors import Shares
from pyromq.store.files.disk import TooManyFiles
from pyromq.store.files.open_files import OpenFiles
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from tests.machine.shortage import seen, taken_descriptors
from tests.store.small import SMALL, bodies, by_key, message

SHARES = Shares(1024, 0, queue_files=8, log_files=4, outgoing=4, connections=4)


async def test_a_flush_that_gets_no_descriptor_waits_and_writing_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        disk = RealDisk(tmp_path, spares=1)
        store = MessageStore(disk, SMALL, ManualClock(), lambda call: loop.run_in_executor(pool, call), shares=SHARES)
        store.put([message(b"first")])
        await store.flush_all()
        with taken_descriptors() as taken:
            spare = disk.open("lock2", create=True)  # nobody's spare is left
            store.put([message(b"second")])
            flush = asyncio.ensure_future(store.flush_all())
            assert await seen(lambda: "the store waits for a descriptor" in caplog.text)
            store.put([message(b"third")])
            assert not flush.done()
            os.close(taken.pop())
            await flush
            spare.close()
        assert store.is_writable
        await store.flush_all()
        assert store.flushed.value == store.appended.value
        store.close()
        disk.close()
    again = MessageStore(RealDisk(tmp_path), SMALL, ManualClock())
    assert again.recovery.clean_stop
    assert bodies(again) == [b"first", b"second", b"third"]
    again.close()


def test_a_message_for_which_no_file_can_be_opened_is_refused_and_the_next_one_is_taken(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    store = MessageStore(disk, SMALL, ManualClock(), shares=SHARES)
    with taken_descriptors(), pytest.raises(TooManyFiles):
        store.put([message(b"refused")])
    assert store.is_writable
    store.put([message(b"taken")])
    assert bodies(store) == [b"taken"]
    store.close()


def test_index_files_that_are_full_hold_no_descriptors(tmp_path: Path) -> None:
    store = MessageStore(RealDisk(tmp_path), SMALL, ManualClock(), shares=SHARES)
    for number in range(2000):
        store.put([message(b"%d" % number, keys=f"k{number}")])
    assert store.index is not None
    assert len(store.index.files) > 10
    open_files = [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]
    assert sum(path.startswith(f"{tmp_path}/index") for path in open_files) <= SHARES.queue_files + 2
    found = by_key(store, "T", "k3")
    assert [record.body for record in found] == [b"3"]
    store.close()


def test_without_a_descriptor_the_writer_closes_files_that_it_kept_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, spares=1)
    files = OpenFiles(disk, 8)
    for number in range(4):
        files.get(f"f{number}", create=True)
    with taken_descriptors():
        for number in range(4, 20):
            files.get(f"f{number}", create=True).pwrite(0, b"x")
        assert 0 < len(files) <= 8
        files.close()
    assert sorted(disk.list()) == sorted(f"f{number}" for number in range(20))
    disk.close()


def test_without_any_descriptor_the_fault_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    with taken_descriptors(), pytest.raises(TooManyFiles, match=r"cannot open .*/f: Too many open files; raise ulimit"):
        disk.open("f", create=True)
    disk.open("f", create=True).close()
