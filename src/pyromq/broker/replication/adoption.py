"""What a slave decides about its master's tables: which to fetch, whether all pages are there, whose offset counts.

`metadata_pull.py` asks it; no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...errors import CallFailed
from ...protocol.bodies.body import DataVersion
from ...protocol.bodies.own import TableVersions

C = TypeVar("C")
Queues = Mapping[int, int]  # queue id -> offset

TOPICS, GROUPS, MODES = "topics", "groups", "modes"
OFFSETS, DELAYS, TIMER, COUNTS = "offsets", "delays", "timer", "counts"
DEFINITIONS = (TOPICS, GROUPS, MODES)  # what is there: taken over at once
PROGRESS = (OFFSETS, DELAYS, TIMER, COUNTS)  # how far somebody is: only once the records that it rests on are here
ALL = (*DEFINITIONS, *PROGRESS)

_MOST_RESTARTS = 20  # of a paged table that changes while it is fetched


def outdated(known: TableVersions | None, told: TableVersions | None) -> set[str]:
    """Return the tables to fetch: all of a master that is new to us, or that cannot tell which have changed."""
    if told is None or known is None or known.life != told.life:
        return set(ALL)
    return {name for name in ALL if known.changes.get(name) != told.changes.get(name)}


def now_known(known: TableVersions | None, told: TableVersions | None, fetched: set[str]) -> TableVersions | None:
    """Return what is known after tables were fetched, which were at least as new as `told`."""
    if told is None:
        return None
    before = known.changes if known is not None and known.life == told.life else {}
    changes = before | {name: told.changes[name] for name in fetched if name in told.changes}
    return TableVersions(life=told.life, changes=changes, log_end=told.log_end)


def merged(theirs: Queues | None, own: Queues | None) -> tuple[Queues | None, Queues | None]:
    """Return a pair's offsets on the slave, and which of its own commits the master still lacks.

    The master's count, also where they went back: an administrator has reset them. Only what clients committed here,
    while they could not reach the master, is not thrown back.
    """
    if not own:
        return theirs, None
    known = theirs or {}
    left = {queue_id: offset for queue_id, offset in own.items() if offset > known.get(queue_id, -1)}
    return {**known, **left} or None, left or None


@dataclass(slots=True)
class Pages(Generic[C]):
    """A table that comes in pages. One that changes on the way begins anew: pages of two states would leave gaps."""

    entries: dict[str, C] = field(default_factory=dict)
    version: DataVersion | None = None
    is_whole: bool = False
    _restarts: int = 0

    @property
    def next(self) -> int:
        """Return the place of the next page."""
        return len(self.entries)

    def take(self, version: DataVersion, page: Mapping[str, C], total: int | None) -> None:
        """Take a page. Without a `total` it is the whole table: brokers before 5.4 know no pages.

        CallFailed: the table changes too fast, or its owner counts more entries than it gives."""
        if self.version is not None and version != self.version:
            self._restarts += 1
            if self._restarts > _MOST_RESTARTS:
                raise CallFailed("a table of the master changes faster than its pages can be fetched")
            self.entries, self.version = {}, version
            return
        self.version = version
        before = len(self.entries)
        self.entries.update(page)
        self.is_whole = total is None or len(self.entries) >= total
        if not self.is_whole and len(self.entries) == before:
            raise CallFailed(f"the master gave {before} entries of a table of {total}, and no more")
