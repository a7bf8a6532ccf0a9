"""Offsets that clients committed to this slave while they could not reach its master: `pyromq/ownCommits.json`.

They are kept apart so that the master's offsets, which are behind, do not throw the groups back, and so that a master
that returns can have them (request 30007). Each goes when the master is as far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...store.tables.json_tables import JsonTable
from ..metadata.offsets import SEPARATOR
from ..metadata.table_content import entry, section
from .adoption import Queues

OFFSETS = "offsets"


class OwnCommits:
    """Event loop only. `changed` is called when there is something to write. `store_changed` hands it over."""

    def __init__(self, table: JsonTable, changed: Callable[[], None]) -> None:
        self._table = table
        self._written = changed
        self._offsets = entry(dict[str, dict[int, int]], section(table.load(), OFFSETS), f"{OFFSETS} in {table.name}")
        self._changed: set[str] = set()

    def all(self) -> Mapping[str, Queues]:
        return self._offsets

    def of(self, key: str) -> Queues | None:
        return self._offsets.get(key)

    def note(self, key: str, queue_id: int, offset: int) -> None:
        """Note a commit of a client. One that goes back counts too: the group consumes again from there."""
        self._offsets.setdefault(key, {})[queue_id] = offset
        self._changed.add(key)

    def keep(self, key: str, queues: Queues | None) -> None:
        """Keep only these of a pair: the master has the others."""
        if queues is None:
            if self._offsets.pop(key, None) is not None:
                self._changed.add(key)
        elif self._offsets.get(key) != queues:
            self._offsets[key] = dict(queues)
            self._changed.add(key)

    def forget_topic(self, topic: str) -> None:
        """Forget the commits of a topic that is deleted."""
        for key in [key for key in self._offsets if key.startswith(topic + SEPARATOR)]:
            self.keep(key, None)

    def clear(self) -> None:
        """Forget all of them: this broker leads, and they are its offsets."""
        for key in [*self._offsets]:
            self.keep(key, None)
        self.store_changed()

    def store_changed(self) -> None:
        changed, self._changed = self._changed, set()
        for key in changed:
            queues = self._offsets.get(key)
            if queues is None:
                self._table.drop(OFFSETS, key)
            else:
                self._table.put(OFFSETS, key, dict(queues))
        if changed:
            self._written()
