"""A full disk: a store opens, is read, says that it has no room, and goes on when there is some."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.errors import ConfigError
from pyromq.store.files.disk import DiskFull
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PAGE, SimulatedDisk
from tests.store.small import SMALL, bodies, opened, put


def put_until_full(store: MessageStore) -> None:
    for _ in range(100):
        put(store, "x" * 500)


def full(disk: SimulatedDisk) -> None:
    disk.capacity = disk.usage().used


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_store_of_ours_opens_on_a_full_disk_and_is_read(stop: str) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *(str(number) * 100 for number in range(60)))
    store.flush_now()
    expected = bodies(store)
    if stop == "clean":
        store.close()
    else:
        disk = disk.kill()
    for _ in range(3):
        full(disk)
        store = opened(disk)
        assert bodies(store) == expected
        with pytest.raises(DiskFull):
            put_until_full(store)
        expected = bodies(store)
        assert store.disk_full_reason() is not None
        disk = disk.kill()
    disk.capacity = 1 << 30
    store = opened(disk)
    put(store, "again")
    assert bodies(store) == [*expected, b"again"]
    store.close()
    assert verify_store(disk, SMALL).exit_code == 0


def test_a_store_says_that_it_has_no_room_until_it_has_some() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a")
    assert store.disk_full_reason() is None
    full(disk)
    with pytest.raises(DiskFull):
        put_until_full(store)
    assert "No space left" in (store.disk_full_reason() or "")
    disk.capacity = disk.usage().used + 100 * PAGE
    assert store.disk_full_reason() is not None  # nobody has tried since
    put(store, "b" * 500)
    assert store.disk_full_reason() is None


def test_a_disk_that_is_smaller_than_a_log_file_is_told_at_once_and_helped_by_smaller_files(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(capacity=100 * PAGE)
    store = opened(disk, replace(SMALL, commit_log_file_bytes=1 << 20))
    (told,) = [record.getMessage() for record in caplog.records if "no room for the first" in record.getMessage()]
    assert f"mappedFileSizeCommitLog={1 << 20} total={100 * PAGE}" in told
    with pytest.raises(DiskFull, match=r"cannot allocate 1048576 bytes for .* lower mappedFileSizeCommitLog"):
        put(store, "a")
    store.close()
    caplog.clear()
    store = opened(disk)  # with the smaller files that it asked for
    assert "no room" not in "".join(record.getMessage() for record in caplog.records)
    put(store, "a")
    assert bodies(store) == [b"a"]
    store.close()
    assert verify_store(disk, SMALL).exit_code == 0
    with pytest.raises(ConfigError, match="was written with 8192"):
        opened(disk, replace(SMALL, commit_log_file_bytes=16384))


def test_a_further_log_file_is_refused_with_its_size() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a")
    full(disk)
    with pytest.raises(DiskFull, match=r"allocate 8192 bytes for .* takes 8192 \(mappedFileSizeCommitLog\)"):
        store.commit_log.make_file(8192)


async def test_a_next_file_that_cannot_be_made_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    store = opened(disk, clock=clock)
    put(store, "a")
    full(disk)

    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if "the next commit log file cannot be made yet" in line]

    for _ in range(50):
        await store.make_file_ahead()
        await clock.advance(0.5)
    assert len(told()) == 1
    await clock.advance(60)
    await store.make_file_ahead()
    assert len(told()) == 2
    assert "held_back=49" in told()[1]
    disk.capacity = 1 << 30
    store.close()


def test_a_new_store_needs_some_room() -> None:
    disk = SimulatedDisk()
    disk.capacity = 0
    with pytest.raises(DiskFull):
        opened(disk)
