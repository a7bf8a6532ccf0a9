"""Queue locks of orderly consumption (requests 41, 42): one client of a group at a time, for a while.

The time is an argument. The handlers are in `clients/handlers.py`; sending to a retry topic asks it too. Owners are
kept in `pyromq/orderLocks.json` over restarts and kills. Java's broker forgets its locks when it stops: members come
back one by one, and the first may be given queues with messages on which another is still at work, out of order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ... import logs
from ...errors import PyroError
from ...protocol.bodies.keyed import MessageQueue
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import entry, section

log = logs.get("pyromq.broker")

LOCKS = "locks"
LOCK_S = 60.0  # a client renews every 20 s; when it dies, others take over after this


@dataclass(slots=True)
class _Lock:
    client_id: str
    until: float


class OrderLocks:
    """Event loop only. An expired lock counts as free and stays until somebody asks for it or `sweep` takes it."""

    def __init__(self, lock_s: float = LOCK_S) -> None:
        self._lock_s = lock_s
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._changed: set[str] = set()

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now: float) -> list[MessageQueue]:
        """Return the queues that the client has now, renewed or newly taken."""
        locks = self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or lock.client_id == client_id or lock.until <= now:
                if lock is None or lock.client_id != client_id:
                    self._changed.add(group)
                locks[queue] = _Lock(client_id, now + self._lock_s)
                granted.append(queue)
        if not locks:
            del self._groups[group]
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Unlock only what is the client's own: a late unlock must not free what another has taken over."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._changed.add(group)
        if not locks:
            self._groups.pop(group, None)

    def is_locked(self, group: str, now: float) -> bool:
        """Return whether any queue of the group is locked: then the group consumes in order."""
        return any(lock.until > now for lock in self._groups.get(group, {}).values())

    def holders(self, now: float) -> list[tuple[str, MessageQueue, str, float]]:
        """Group, queue, client and seconds left of every lock that counts: for the inspection command."""
        return [
            (group, queue, lock.client_id, lock.until - now)
            for group, locks in self._groups.items()
            for queue, lock in locks.items()
            if lock.until > now
        ]

    def sweep(self, now: float) -> None:
        """Forget expired locks, so that groups which are gone leave nothing behind."""
        for group in list(self._groups):
            locks = {queue: lock for queue, lock in self._groups[group].items() if lock.until > now}
            if len(locks) < len(self._groups[group]):
                self._changed.add(group)
            if locks:
                self._groups[group] = locks
            else:
                del self._groups[group]

    # --- over restarts --------------------------------------------------------------------------------------------

    def take_changed(self) -> list[str]:
        """Return the groups in which a queue has another owner, or none, since the last call; renewals do not count."""
        changed, self._changed = sorted(self._changed), set()
        return changed

    def owners(self, group: str) -> dict[MessageQueue, str]:
        return {queue: lock.client_id for queue, lock in self._groups.get(group, {}).items()}

    def restore(self, group: str, owners: Mapping[MessageQueue, str], now: float) -> None:
        """Restore the locks. When they were renewed is not known: they count as if it were just now."""
        self._groups[group] = {queue: _Lock(client_id, now + self._lock_s) for queue, client_id in owners.items()}


class KeptLock(msgspec.Struct, rename="camel"):
    """As it stands in the file."""

    broker_name: str
    topic: str
    queue_id: int
    client_id: str

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(broker_name=self.broker_name, queue_id=self.queue_id, topic=self.topic)


class OrderLockTable:
    """Event loop only. Changes of owners are written, renewals are not. `saved` returns once the table is on disk."""

    def __init__(self, table: JsonTable, locks: OrderLocks, now: float, saved: Callable[[], Awaitable[None]]) -> None:
        self._table = table
        self._locks = locks
        self._saved = saved
        for group, kept in section(table.load(), LOCKS).items():
            found = entry(list[KeptLock], kept, f"{LOCKS} of {group} in {table.name}")
            locks.restore(group, {one.queue: one.client_id for one in found}, now)

    def note(self) -> bool:
        """Take over what changed; True: somebody has to write the table."""
        groups = self._locks.take_changed()
        for group in groups:
            owners = self._locks.owners(group)
            if owners:
                kept = [
                    KeptLock(queue.broker_name, queue.topic, queue.queue_id, client) for queue, client in owners.items()
                ]
                self._table.put(LOCKS, group, msgspec.to_builtins(kept))
            else:
                self._table.drop(LOCKS, group)
        return bool(groups)

    async def keep(self) -> None:
        """Save what changed; it is on disk when this returns. A disk that is full is no reason to stop consumption."""
        if not self.note():
            return
        try:
            await self._saved()
        except PyroError as fault:
            log.error("queue locks cannot be written: a restart forgets them", why=str(fault))
