"""Which log files went when: remembered over restarts, and not without bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyromq.broker.messages.expired import REMEMBERED, Expired
from pyromq.model.ids import UniqueIds, offset_message_id, pack_host
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.simulated_disk import SimulatedDisk

FILE = 1000
DAY_MS = 86_400_000
NOW = 1_700_000_000_000
BORN = NOW - DAY_MS + 9 * FILE + 500


class Log:
    """A record begins each file, a second apart. What is asked outside of `ask` would wait for the medium."""

    def __init__(self) -> None:
        self.commit_log = self
        self._asked = False

    async def ask(self, query: Callable[[], Any]) -> Any:
        self._asked = True
        try:
            return query()
        finally:
            self._asked = False

    def store_time_at(self, position: int) -> int | None:
        assert self._asked
        return NOW - DAY_MS + position


async def test_the_last_files_are_remembered_by_place_and_by_time() -> None:
    disk = SimulatedDisk(now_ms=lambda: NOW)
    table = JsonTable(disk, "pyromq/expired.json")
    store: Any = Log()
    expired = Expired(table, store, lambda: NOW, lambda: None)
    for number in range(REMEMBERED + 5):
        await expired.note(number * FILE, (number + 1) * FILE)
    table.save()
    again = Expired(JsonTable(disk, "pyromq/expired.json"), store, lambda: NOW, lambda: None)
    for known in (expired, again):
        assert known.at(4 * FILE) is None
        assert known.at(5 * FILE) == NOW
        host = pack_host("127.0.0.1", 10911)
        assert known.of(offset_message_id(host, 5 * FILE + 7), NOW, 6 * FILE) == NOW
        assert known.of(offset_message_id(host, 7), NOW, 6 * FILE) == 0  # gone, and nobody knows since when
        assert known.of(offset_message_id(host, 8 * FILE), NOW, 6 * FILE) is None
        assert known.of(UniqueIds("127.0.0.1", 1, 2, lambda: BORN).next(), NOW, 6 * FILE) == NOW
        assert known.of("no id", NOW, 6 * FILE) is None
