"""Queries by key, place and time on pages that are not in the page cache: the loop never waits for the medium."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from pyromq.model.boundary import Boundary
from pyromq.store.log.reader import KeyQuery
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk, SimulatedFile
from tests.store.cold import Medium
from tests.store.small import SMALL, by_key, message

T = TypeVar("T")
PAGE = 64
MANY = 1500


async def filled(clock: ManualClock, count: int = 40, **sizes: int) -> MessageStore:
    store = MessageStore(SimulatedDisk(), replace(SMALL, **sizes), clock)  # type: ignore[arg-type]
    for number in range(count):
        if number < 50:
            await clock.advance(1)
        store.put([message(f"body {number}", keys=f"odd{number % 2} all")])
    return store


def freeze(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> Medium:
    medium = Medium(monkeypatch, SimulatedFile, PAGE)
    store._reading.run_blocking = medium
    return medium


async def test_by_key_fetches_index_and_records_in_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await filled(ManualClock())
    expected = by_key(store, "T", "odd1")
    assert len(expected) == 20
    assert store.index is not None
    assert len(store.index.files) > 1
    medium = freeze(store, monkeypatch)
    assert await store.by_key(KeyQuery("T", "odd1")) == expected
    cold = medium.fetched
    assert cold > 20
    assert await store.by_key(KeyQuery("T", "odd1")) == expected
    assert medium.fetched == cold  # all of it is in the page cache by now: no helper needed


async def test_by_place_and_by_time_wait_in_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    store = await filled(clock)
    queue = store.queues.get("T", 0)
    assert queue is not None
    entry = queue.entry_at(7)
    assert entry is not None
    place, time = entry.position, store.reader.store_time("T", 0, 7)
    medium = freeze(store, monkeypatch)
    record = await store.ask(lambda: store.reader.record_at(place))
    assert record is not None
    assert record.body == b"body 7"
    assert await store.ask(lambda: store.reader.store_time("T", 0, 7)) == time
    for boundary in Boundary:
        assert await store.ask(lambda b=boundary: store.reader.offset_by_time("T", 0, time, b)) == 7  # type: ignore[misc]
    assert await store.ask(lambda: store.reader.record_at(store.commit_log.end)) is None
    assert medium.fetched > 2


async def test_a_place_that_the_medium_does_not_give_is_not_asked_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await filled(ManualClock())
    monkeypatch.setattr(
        SimulatedFile, "pread_resident", lambda file, offset, length: None
    )  # as where there is no such call
    assert (await store.ask(lambda: store.reader.record_at(0))) is not None


async def test_a_key_with_many_entries_lets_others_in_between() -> None:
    clock = ManualClock()
    store = await filled(clock, MANY, index_entries=4000)
    turns: list[float] = []
    sleep = clock.sleep

    async def counted(seconds: float) -> None:
        turns.append(seconds)
        await sleep(seconds)

    clock.sleep = counted  # type: ignore[method-assign]
    oldest = await store.by_key(KeyQuery("T", "all", end=store.reader.store_time("T", 0, 2) + 999))
    assert [record.body for record in oldest][:3] == [b"body 0", b"body 1", b"body 2"]
    assert len(turns) >= 1


async def test_files_that_expire_during_a_search_end_it() -> None:
    store = await filled(ManualClock())
    assert store.index is not None
    search = store.reader.search(KeyQuery("T", "odd1"))
    assert search is not None
    store.index.give_up_before(store.commit_log.end)
    assert len(store.index.files) == 1
    only = {record.physical_offset for record in by_key(store, "T", "odd1")}
    while not search.step():
        pass
    assert only == set(search.found)
