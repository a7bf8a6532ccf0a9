"""The writer's steps in the native kernel: real files as Python writes them, faults as Python has them, power cuts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.store.config import FlushMode
from pyromq.store.errors import StoreNotWritable
from pyromq.store.files.disk import DiskError
from pyromq.store.files.real_disk import RealDisk, RealFile
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk, SimulatedFile
from tests.broker.virtual import virtual_broker
from tests.kernel.test_native_send import send
from tests.kernel.test_verdicts import Life, native_life, numbered
from tests.kernel.twins import PEER, choose, lives, native_module, ready
from tests.transport.support import raw_peer


def spread(first: int, count: int) -> bytes:
    """Sends to three queues in turn."""
    return b"".join(numbered(number, queue=number % 3) for number in range(first, first + count))


async def test_on_real_files_both_kernels_leave_the_same(tmp_path: Path) -> None:
    """Over the ends of log files, queue files and index files, which Python's writer takes."""
    bursts = [spread(1 + 40 * burst, 40) for burst in range(40)]
    small = {"commit_log_file_bytes": 64 << 10, "queue_file_bytes": 20 * 100, "index_entries": 700}
    seen = []
    for name, module in (("native", native_module()), ("python", None)):
        disk = RealDisk(tmp_path / name, create=True)
        seen.append(await lives(tmp_path / name, bursts, module, disk=disk, **small))
    assert seen[0].by_kernel > 1000
    assert seen[0].answers == seen[1].answers
    logs = [{name: data for name, data in one.files.items() if not name.startswith("index/")} for one in seen]
    assert logs[0] == logs[1]
    indexes = [[data for name, data in sorted(one.files.items()) if name.startswith("index/")] for one in seen]
    assert indexes[0] == indexes[1]  # their names are times
    assert len(indexes[0]) > 2


async def test_statistics_count_what_went_by_steps(tmp_path: Path) -> None:
    async with native_life(tmp_path) as one:
        before = one.broker.counters.put_total, one.broker.counters.put_bytes
        await one.write(spread(1, 30))
        assert one.broker.counters.put_total == before[0] + 30
        assert one.broker.counters.put_bytes > before[1] + 30 * 100
        await one.write(spread(31, 30))
        found = one.broker.counters.find("TOPIC_PUT_NUMS", "A")
        assert found is not None
        assert found.value == 60 + 3  # and the first of each queue


async def test_queue_files_that_made_room_for_others_are_opened_again(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "store", create=True)
    async with native_life(tmp_path / "store", disk=disk, max_open_queue_files=8) as one:
        one.broker.store._parts.files.open_files._limit = 1
        for burst in range(5):
            await one.write(spread(1 + 12 * burst, 12))
        assert set(one.codes.values()) == {0}
        assert one.by_kernel == 60
        assert [len(one.bodies(queue)) for queue in range(3)] == [20, 20, 20]


@pytest.mark.parametrize("part", ["commitlog", "consumequeue"])
async def test_a_write_that_the_system_refuses_ends_writing(tmp_path: Path, part: str) -> None:
    disk = RealDisk(tmp_path / "store", create=True)
    async with native_life(tmp_path / "store", disk=disk) as one:
        await one.write(numbered(1))
        _make_read_only(one, part)
        await one.write(numbered(2))
        assert one.codes == {1: 0, 2: int(ResponseCode.SERVICE_NOT_AVAILABLE)}
        assert not one.broker.store.is_writable
        await one.write(numbered(3))
        assert one.codes[3] == int(ResponseCode.SERVICE_NOT_AVAILABLE)
        assert one.bodies() == ["1"]


async def test_index_entries_that_the_system_refuses_end_writing_at_the_flush(tmp_path: Path) -> None:
    """They are gathered until then."""
    disk = RealDisk(tmp_path / "store", create=True)
    async with native_life(tmp_path / "store", disk=disk) as one:
        await one.write(numbered(1))
        _make_read_only(one, "index")
        await one.write(numbered(2))
        assert one.codes == {1: 0, 2: 0}
        with pytest.raises(StoreNotWritable):
            await one.broker.store.flush_all()
        assert not one.broker.store.is_writable
        await one.write(numbered(3))
        assert one.codes[3] == int(ResponseCode.SERVICE_NOT_AVAILABLE)
        assert one.bodies() == ["1", "2"]


def _make_read_only(one: Life, part: str) -> None:
    store = one.broker.store
    queue = store.queues.get("A", 0)
    assert queue is not None
    assert store.index is not None
    files: dict[str, Callable[[], object]] = {
        "commitlog": lambda: store.commit_log.sequence.file_at(store.commit_log.end)[0],
        "consumequeue": lambda: queue.entries.sequence.file_at(queue.next_offset * 20)[0],
        "index": lambda: store.index.files[-1].file,  # type: ignore[union-attr]
    }
    file = files[part]()
    assert isinstance(file, RealFile)
    aside = os.open(file._disk.path(file.name), os.O_RDONLY)
    os.dup2(aside, file.fileno())
    os.close(aside)


async def test_a_disk_that_fails_within_the_steps_is_said_by_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = SimulatedFile.pwrite

    def failing(file: SimulatedFile, offset: int, data: bytes) -> None:
        if file.name.startswith("consumequeue/A/1"):
            raise DiskError("the disk has a fault")
        write(file, offset, data)

    async with native_life(tmp_path) as one:
        monkeypatch.setattr(SimulatedFile, "pwrite", failing)
        await one.write(numbered(1), numbered(2, queue=1))
        assert set(one.codes.values()) == {int(ResponseCode.SERVICE_NOT_AVAILABLE)}
        assert not one.broker.store.is_writable
        monkeypatch.setattr(SimulatedFile, "pwrite", write)


async def test_a_queue_that_was_deleted_and_made_again_gets_its_entries(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "store", create=True)
    async with native_life(tmp_path / "store", disk=disk) as one:
        await one.write(numbered(1))
        one.broker.store.queues.remove_topic("A")
        await one.write(numbered(2), numbered(3))
        await one.write(numbered(4))
        assert one.life.bodies("A") == ["2", "3", "4"]


@pytest.mark.parametrize("seed", range(8))
async def test_what_was_acked_survives_a_power_cut(tmp_path: Path, seed: int) -> None:
    rng, clock = random.Random(seed), ManualClock(1_700_000_000_000)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, native_module())
        small: dict[str, Any] = {"commit_log_file_bytes": 64 << 10}
        async with virtual_broker(tmp_path, disk, clock, killed=True, flush_mode=FlushMode.SYNC, **small) as life:
            await ready(life)
            peer = raw_peer(life.broker.servers[0], PEER)
            number = 1
            for _ in range(20):
                count = rng.randrange(1, 30)
                peer.write(spread(number, count))
                number += count
                await clock.settle()
                if rng.random() < 0.5:
                    await (life.broker.store.flush_log() if rng.random() < 0.7 else life.broker.store.flush_all())
                await clock.settle()
            acked = {answer.opaque for answer in peer.received if answer.code == 0}
            assert sum(one.kernel.messages for one in life.broker.verdicts) > number // 2
            life.broker.servers[0].service.abort_pending_replies()  # nothing would ever sync them
        async with virtual_broker(tmp_path, disk.crash(seed), clock, **small) as life:
            found = {int(body) for queue in range(3) for body in life.bodies("A", queue) if body != "first"}
            assert acked <= found
            assert acked
            peer = raw_peer(life.broker.servers[0], PEER)
            peer.write(send(number, body=b"%d" % number))
            await clock.settle()
            assert life.bodies("A")[-1] == str(number)
