"""A part of the log is gone as a whole: nothing starts, nothing is changed, until the owner says that it is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.store.errors import StoreDamaged
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.store_state import MissingRange
from pyromq.store.tools.by_hand import accept_loss
from pyromq.store.tools.findings import Level
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.crash.test_rot import all_files
from tests.store.small import SMALL, bodies, log_file, message, opened

COUNT = 60
FILE = SMALL.commit_log_file_bytes


def filled(disk: SimulatedDisk) -> tuple[MessageStore, list[int]]:
    store = opened(disk)
    positions = [store.put([message(b"%03d" % number * 100, keys=f"k{number}")])[0].position for number in range(COUNT)]
    store.flush_now()
    return store, positions


def stopped(disk: SimulatedDisk, store: MessageStore) -> SimulatedDisk:
    store.close()
    return disk


def killed(disk: SimulatedDisk, store: MessageStore) -> SimulatedDisk:
    return disk.kill()


def remove(disk: SimulatedDisk, *bases: int) -> None:
    for base in bases:
        disk.remove(log_file(base))


def truncate(disk: SimulatedDisk, base: int, length: int) -> None:
    file = disk.open(log_file(base))
    file.truncate(length)
    file.sync()


def content(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: disk.open(name, writable=False).pread(0, disk.size(name)) for name in all_files(disk)}


def harm_two(disk: SimulatedDisk) -> None:
    remove(disk, FILE)
    truncate(disk, 3 * FILE, 0)


LOSSES: dict[str, tuple[Callable[[SimulatedDisk], None], Callable[[int], list[MissingRange]]]] = {
    "all": (lambda disk: remove(disk, 0, FILE, 2 * FILE, 3 * FILE), lambda end: [MissingRange(0, end)]),
    "first": (lambda disk: remove(disk, 0), lambda end: [MissingRange(0, FILE)]),
    "middle": (lambda disk: remove(disk, FILE, 2 * FILE), lambda end: [MissingRange(FILE, 3 * FILE)]),
    "last": (lambda disk: remove(disk, 3 * FILE), lambda end: [MissingRange(3 * FILE, end)]),
    "cut": (lambda disk: truncate(disk, 3 * FILE, 100), lambda end: [MissingRange(3 * FILE + 100, end)]),
    "two": (
        harm_two,
        lambda end: [MissingRange(FILE, 2 * FILE), MissingRange(3 * FILE, end)],
    ),
}


@pytest.mark.parametrize("stop", [stopped, killed])
@pytest.mark.parametrize("loss", LOSSES)
def test_it_does_not_start_and_changes_nothing(
    loss: str, stop: Callable[[SimulatedDisk, MessageStore], SimulatedDisk]
) -> None:
    harm, expected = LOSSES[loss]
    disk = SimulatedDisk()
    store, _ = filled(disk)
    end = store.commit_log.end
    assert 3 * FILE + 100 < end < 4 * FILE
    disk = stop(disk, store)
    harm(disk)
    before = content(disk)
    for refused in (lambda: opened(disk), lambda: rebuild_store(disk, SMALL, ManualClock(), 1)):
        with pytest.raises(StoreDamaged, match="Put the files back from a backup or a slave") as caught:
            refused()
        for one in expected(end):
            assert f"{one.start} to {one.end}" in str(caught.value)
        assert content(disk) == before


@pytest.mark.parametrize("stop", [stopped, killed])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_that_was_accepted_costs_those_records_alone(
    loss: str, stop: Callable[[SimulatedDisk, MessageStore], SimulatedDisk]
) -> None:
    harm, expected = LOSSES[loss]
    disk = SimulatedDisk()
    store, positions = filled(disk)
    end = store.commit_log.end
    disk = stop(disk, store)
    harm(disk)
    assert accept_loss(disk, SMALL) == expected(end)
    assert accept_loss(disk, SMALL) == []
    again = opened(disk)
    left = [
        b"%03d" % number * 100
        for number, position in enumerate(positions)
        if not any(one.start < position + 400 and position < one.end for one in expected(end))
    ]
    assert set(bodies(again)) >= set(left)
    assert len(bodies(again)) <= len(left) + 1
    # No offset and no position is given out twice.
    assert again.commit_log.end == end
    placed = again.put([message(b"new")])[0]
    assert (placed.position, placed.queue_offset) == (end, COUNT)
    assert bodies(again)[-1] == b"new"
    again.close()
    assert bodies(opened(disk))[-1] == b"new"


def test_files_that_were_put_back_are_as_if_nothing_had_been() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    store.close()
    kept = content(disk)[log_file(FILE)]
    remove(disk, FILE)
    with pytest.raises(StoreDamaged):
        opened(disk)
    disk.open(log_file(FILE), create=True).pwrite(0, kept)
    assert len(bodies(opened(disk))) == COUNT


@pytest.mark.parametrize("loss", LOSSES)
def test_verify_says_it_in_one_line_a_range_and_does_not_bury_it(loss: str) -> None:
    harm, expected = LOSSES[loss]
    disk = SimulatedDisk()
    store, _ = filled(disk)
    end = store.commit_log.end
    store.close()
    harm(disk)
    report = verify_store(disk, SMALL)
    assert report.exit_code == Level.DAMAGE
    for one, finding in zip(expected(end), report.findings, strict=False):
        assert f"from {one.start} to {one.end}" in finding.what
        assert "accept-loss" in finding.remedy
    assert sum(report.counts.values()) <= len(expected(end)) + 1


async def test_files_that_expired_are_not_missed() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    await store.drop_oldest_log_file()
    disk = disk.kill()
    store = opened(disk)
    assert store.commit_log.start == FILE
    await store.drop_oldest_log_file()
    store.close()
    assert opened(disk).commit_log.start == 2 * FILE


async def test_a_file_that_a_power_cut_brings_back_goes_again() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    kept = content(disk)[log_file(0)]
    await store.drop_oldest_log_file()
    await store.drop_oldest_log_file()
    disk = disk.kill()
    disk.open(log_file(0), create=True).pwrite(0, kept)
    store = opened(disk)
    assert store.commit_log.start == 2 * FILE
    assert log_file(0).rpartition("/")[2] not in disk.list("commitlog")


def test_what_was_never_synced_is_not_missed() -> None:
    """A power cut under ASYNC_FLUSH: the log ends before what was written."""
    disk = SimulatedDisk()
    store, _ = filled(disk)
    synced = store.commit_log.end
    for number in range(COUNT):
        store.put([message(b"%03d" % number * 100)])
    assert store.commit_log.end > 4 * FILE
    for seed in range(20):
        again = opened(disk.crash(seed))
        assert again.commit_log.end >= synced
