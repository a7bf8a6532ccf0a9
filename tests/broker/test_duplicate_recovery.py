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
        put(store, second)
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
    wanted = range(max(0, SECONDS - age_s), SECONDS)
    known = known_again(store, age_s)
    assert known == list(range(known[0], SECONDS))
    assert set(known) >= set(wanted)
    assert len(known) <= age_s + 130  # and of the rest no more than a few MB


def test_times_of_a_clock_that_was_wrong_hide_nothing_near_the_end() -> None:
    """A master whose clock is an hour ahead leads for one record: what came before it is not an hour old."""
    clock = ManualClock()
    store = MessageStore(SimulatedDisk(), CONFIG, clock)
    put(store, 0)
    clock.step_wall(3600)
    put(store, 1)
    assert known_again(store, age_s=600) == [0, 1]


def put(store: MessageStore, number: int) -> None:
    properties = b"__SEND_ID\x01p/1/%d\x02" % number
    store.put([Record(topic="T", queue_id=0, body=bytes(100_000), properties=properties)])


def known_again(store: MessageStore, age_s: int) -> list[int]:
    table = DuplicateTable(1000, age_s * 1000)
    rebuild_window(table, store.commit_log, CONFIG.delay_levels, now_ms=0)
    return [identity.sequence for identity in table._sends]
