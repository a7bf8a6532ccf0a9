"""What is readable: the lower of two gates, and never less than it was."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.store.config import FlushMode, StoreConfig
from pyromq.store.gates import Gates
from pyromq.store.log.reader import GetStatus
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, SMALL_SYNC, bodies, opened, put


@pytest.mark.parametrize(
    ("mode", "confirmed", "passed"),
    [
        (FlushMode.ASYNC, None, 30),
        (FlushMode.ASYNC, 10, 10),
        (FlushMode.ASYNC, 40, 30),
        (FlushMode.SYNC, None, 20),
        (FlushMode.SYNC, 10, 10),
        (FlushMode.SYNC, 25, 20),
    ],
)
def test_the_lower_gate_counts(mode: FlushMode, confirmed: int | None, passed: int) -> None:
    assert Gates(mode, confirmed).passed(appended=30, flushed=20) == passed


@pytest.mark.parametrize("config", [SMALL, SMALL_SYNC])
def test_what_others_have_not_confirmed_is_not_read_and_nobody_is_sent_back(config: StoreConfig) -> None:
    store = opened(SimulatedDisk(), config)
    put(store, "seen")
    asyncio.run(store.flush_all())
    readable = store.readable.value
    store.confirm(0)  # a slave that has nothing yet
    assert store.readable.value == readable  # which does not sink
    put(store, "held")
    put(store, "held too")
    asyncio.run(store.flush_all())
    assert bodies(store) == [b"seen"]
    for offset in (1, 2, 3):
        got = store.reader.select("T", 0, offset, max_count=32, max_bytes=1 << 20)
        assert (got.status, got.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, offset)
    got = store.reader.select("T", 0, 4, max_count=32, max_bytes=1 << 20)
    assert (got.status, got.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 1)
    store.confirm(store.commit_log.end - 1)
    assert bodies(store) == [b"seen", b"held"]
    store.confirm(None)
    assert bodies(store) == [b"seen", b"held", b"held too"]
    put(store, "free")
    asyncio.run(store.flush_all())
    assert store.readable.value == store.commit_log.end
