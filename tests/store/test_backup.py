"""A backup that is taken while messages come in is a store as of one moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from pyromq.ambient import SystemClock
from pyromq.store.config import FlushMode
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.json_tables import JsonTable
from pyromq.store.tools.backup import backup_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.crash.history import read_everything
from tests.crash.lives import Story


class Busy:
    """A source disk on which messages arrive whenever the backup reads something."""

    def __init__(self, story: Story, store: MessageStore) -> None:
        self.story, self.store = story, store
        self.active = True

    def __getattr__(self, name: str) -> object:
        return getattr(self.story.disk, name)

    def _meanwhile(self) -> None:
        if self.active and self.story.rng.random() < 0.3:
            self.active = False  # the store's own reads are not the backup's
            self.story.rng.choice([self.story.put, self.story.put, self.story.flush_log, self.story.flush_all])(
                self.store
            )
            self.active = True

    def open(self, name: str, **how: bool) -> object:
        self._meanwhile()
        return self.story.disk.open(name, **how)

    def size(self, name: str) -> int:
        self._meanwhile()
        return self.story.disk.size(name)


def test_a_backup_while_messages_come_in_is_consistent() -> None:
    grew = 0
    for seed in range(40):
        clock = ManualClock()
        story = Story(Random(seed), FlushMode.ASYNC, SimulatedDisk(now_ms=clock.now_ms), clock)
        store = story.open()
        for _ in range(20):
            story.put(store)
        story.change_table(store)
        if seed % 2:
            story.flush_all(store)
        begin = store.commit_log.end
        target = SimulatedDisk(now_ms=clock.now_ms)
        done = backup_store(Busy(story, store), target, story.config, clock, 1)  # type: ignore[arg-type]
        grew += store.commit_log.end > begin
        assert begin <= done.log_end <= store.commit_log.end
        assert verify_store(target, story.config).findings == []
        assert JsonTable(target, "config/topics.json").load() == JsonTable(story.disk, "config/topics.json").load()
        expected = {put.body for put in story.history.puts if put.end <= done.log_end}
        copy = MessageStore(target, story.config, clock)
        assert {record.body for record in read_everything(copy).values()} == expected
    assert grew > 30


async def test_a_backup_of_a_real_store_under_load(tmp_path: Path) -> None:
    clock = ManualClock()
    story = Story(Random(1), FlushMode.ASYNC, SimulatedDisk(), clock)
    config = story.config
    source = RealDisk(tmp_path / "source", create=True)
    store = MessageStore(source, config, SystemClock())
    for _ in range(200):
        story.put(store)
    loop = asyncio.get_running_loop()
    target = RealDisk(tmp_path / "target", create=True)
    backup = loop.run_in_executor(None, lambda: backup_store(source, target, config, SystemClock(), 1))
    while not backup.done():
        story.put(store)
        await store.flush_all()
        await asyncio.sleep(0)
    done = await backup
    store.close()
    assert verify_store(target, config).findings == []
    expected = {put.body for put in story.history.puts if put.end <= done.log_end}
    assert len(expected) >= 200
    copy = MessageStore(target, config, SystemClock())
    assert {record.body for record in read_everything(copy).values()} == expected
    copy.close()
