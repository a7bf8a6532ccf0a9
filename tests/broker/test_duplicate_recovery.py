"""Where the log is read from when the duplicate window is made again: not all of it, and nothing too late."""

from __future__ import annotations

import pytest

from pyromq.broker.duplicates.duplicate_recovery import find_start, rebuild_window
from pyromq.broker.duplicates.duplicate_window import DuplicateTable
from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk

CONFIG = StoreConfig(commit_log_file_bytes=24 << 20, queue_file_bytes=20_000, index_enabled=False)
SECONDS = 200


@pytest.fixture(scope="module")
def store() -> MessageStore:
    """Twenty MB in one file: one send of 100 KB each second."""
    clock = ManualClock()
    store = MessageStore(SimulatedDisk(), CONFIG, clock)
    for second in range(SECONDS):
        properties = b"__SEND_ID\x01p/1/%d\x02" % second
        store.put([Record(topic="T", queue_id=0, body=bytes(100_000), properties=properties)])
        clock.step_wall(1)
    return store


@pytest.mark.parametrize("age_s", [1, 20, 100, 190, 1000])
def test_it_is_read_from_a_little_before(store: MessageStore, age_s: int) -> None:
    now = store.commit_log.tail.last_time
    since = now - age_s * 1000
    start = find_start(store.commit_log, CONFIG.delay_levels, since)
    first = store.commit_log.store_time_at(start)
    assert first is not None
    assert start == 0 or first < since
    assert store.commit_log.end - start <= (age_s + 1) * 101_000 + (4 << 20)


@pytest.mark.parametrize("age_s", [1, 20, 100, 1000])
def test_everything_within_the_window_is_known_again(store: MessageStore, age_s: int) -> None:
    now = store.commit_log.tail.last_time
    table = DuplicateTable(1000, age_s * 1000)
    rebuild_window(table, store.commit_log, CONFIG.delay_levels, now)
    wanted = range(max(0, SECONDS - age_s), SECONDS)
    assert [identity.sequence for identity in table._sends] == list(wanted)
