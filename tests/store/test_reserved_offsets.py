"""An offset that was given out stays taken: last entries and last records damaged, opened or rebuilt, never twice."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

import pytest

from pyromq.store.message_store import MessageStore
from pyromq.store.queues.queue_table import RESERVED_FILE
from pyromq.store.tools.by_hand import accept_loss
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.store.small import SMALL, bodies, log_file, message, opened

COUNT = 20
QUEUE = "consumequeue/T/0/00000000000000000000"


def filled(disk: SimulatedDisk) -> tuple[MessageStore, list[int]]:
    store = opened(disk)
    positions = [store.put([message(b"%03d" % number)])[0].position for number in range(COUNT)]
    store.flush_now()
    return store, positions


def flip(disk: SimulatedDisk, name: str, *offsets: int) -> None:
    for offset in offsets:
        disk.flip_bit(name, offset, 4)


def next_offset(store: MessageStore) -> int:
    return store.put([message(b"new")])[0].queue_offset


@pytest.mark.parametrize("damaged", [(3, 9, 15), (7,), (9,), (15,)])
def test_a_damaged_last_entry_is_noticed_and_written_again(damaged: tuple[int, ...]) -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    store.close()
    flip(disk, QUEUE, *((COUNT - 1) * 20 + byte for byte in damaged))
    store = opened(disk)
    assert len(bodies(store)) == COUNT
    assert next_offset(store) == COUNT
    store.close()
    assert verify_store(disk, SMALL).findings == []


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("rebuilt", [True, False])
def test_a_damaged_last_record_keeps_its_offset(how: str, rebuilt: bool) -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    if how == "stop":
        store.close()
    else:
        disk = disk.kill()
    flip(disk, log_file(0), positions[-1] + 88)
    if rebuilt:
        rebuild_store(disk, SMALL, ManualClock(), 1)
        assert not disk.exists(RESERVED_FILE)
    store = opened(disk)
    assert len(bodies(store)) == COUNT - 1
    assert next_offset(store) == COUNT
    store.close()
    store = opened(disk)
    assert next_offset(store) == COUNT + 1
    assert bodies(store)[-2:] == [b"new", b"new"]


def test_a_rebuild_after_an_accepted_loss_gives_no_offset_twice() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    end = store.commit_log.end
    store.close()
    file = disk.open(log_file(0))
    file.truncate(positions[-5])
    file.sync()
    accept_loss(disk, SMALL)
    opened(disk).close()
    report = rebuild_store(disk, SMALL, ManualClock(), 1)
    assert report.end == end
    store = opened(disk)
    assert len(bodies(store)) == COUNT - 5
    assert next_offset(store) == COUNT


def test_a_queue_whose_folder_and_last_record_are_gone_goes_on_behind_it() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.close()
    flip(disk, log_file(0), positions[-1] + 88)
    disk.remove(QUEUE)
    store = opened(disk)
    assert next_offset(store) == COUNT


def test_a_rebuild_that_is_cut_off_is_completed_by_the_next_start() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.close()
    flip(disk, log_file(0), positions[-1] + 88)
    done = False
    for operations in range(5, 4000, 3):
        copy = deepcopy(disk)
        copy.cut_power_after(operations)
        with suppress(PowerCut):
            rebuild_store(copy, SMALL, ManualClock(), 1)
            done = True
        after = opened(copy.crash(operations))
        assert next_offset(after) == COUNT
        if done:
            break
    assert done
