"""SYNC_FLUSH by the kernel's thread, on real files: what is acked is synced, over rolls; a failed sync ends writing."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.store.errors import StoreNotWritable
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.log.thread_flusher import FlushThread, ThreadFlusher
from pyromq.store.message_store import MessageStore
from tests.kernel.twins import native_module
from tests.store.small import SMALL_SYNC, bodies, put


class Noted:
    """The kernel's thread, with notes of what it was told; `descriptor` stands in for every file if it is given."""

    def __init__(self, bell: int, done: int, descriptor: int | None = None) -> None:
        self._thread = native_module().Flusher(bell, done)
        self._descriptor = descriptor
        self.told: list[tuple[str, int]] = []
        self.full = 0  # so many times it takes nothing

    def submit(self, descriptor: int, until: int) -> bool:
        if self.full:
            self.full -= 1
            return False
        self.told.append((os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")), until))
        return bool(self._thread.submit(descriptor if self._descriptor is None else self._descriptor, until))

    def state(self) -> tuple[int, int]:
        done, fault = self._thread.state()
        return done, fault

    def end(self) -> None:
        self._thread.end()


@asynccontextmanager
async def running(folder: Path, make: Callable[[int, int], FlushThread]) -> AsyncIterator[MessageStore]:
    native_module()  # where it is missing, the skip must not end the store's own task, which is waited for
    disk, started = RealDisk(folder, create=True), asyncio.Event()

    def made(bell: int, done: int) -> FlushThread:
        started.set()
        return make(bell, done)

    store = MessageStore(disk, SMALL_SYNC, SystemClock(), flusher=ThreadFlusher(disk, made))
    task = asyncio.create_task(store.run())
    await started.wait()
    try:
        yield store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


async def test_everything_that_was_put_gets_readable_over_many_files(tmp_path: Path) -> None:
    rng, made = random.Random(4), list[Noted]()

    def make(bell: int, done: int) -> FlushThread:
        made.append(Noted(bell, done))
        return made[0]

    async with running(tmp_path, make) as store:
        for number in range(200):
            put(store, f"{number}" + "x" * rng.randrange(800))
            if rng.random() < 0.3:
                await store.readable.reached(store.commit_log.end)
        await store.readable.reached(store.commit_log.end)
        assert store.flushed.value == store.commit_log.end
        assert len(bodies(store)) == 200
        names = [store.commit_log.sequence.name(base).rpartition("/")[2] for base in store.commit_log.sequence.bases]
        assert len(names) > 3
        assert sorted({name for name, _ in made[0].told}) == names  # the tail of a file that was left too
        ends = [until for _, until in made[0].told]
        assert ends == sorted(ends)


async def test_too_many_files_at_once_wait_for_the_next_ring(tmp_path: Path) -> None:
    made: list[Noted] = []

    def make(bell: int, done: int) -> FlushThread:
        made.append(Noted(bell, done))
        return made[0]

    async with running(tmp_path, make) as store:
        put(store, "one")
        made[0].full = 1
        put(store, "two")  # not taken; the sync of the first rings
        await store.readable.reached(store.commit_log.end)
        assert bodies(store) == [b"one", b"two"]


async def test_a_failed_sync_ends_writing_and_tells_who_waits(tmp_path: Path) -> None:
    reading, writing = os.pipe()  # cannot be synced
    try:
        async with running(tmp_path, lambda bell, done: Noted(bell, done, writing)) as store:
            put(store, "lost")
            with pytest.raises(StoreNotWritable, match=os.strerror(errno.EINVAL)):
                await store.readable.reached(store.commit_log.end)
            assert (store.flushed.value, bodies(store)) == (0, [])
            with pytest.raises(StoreNotWritable, match="sync"):
                put(store, "more")
    finally:
        os.close(reading)
        os.close(writing)
