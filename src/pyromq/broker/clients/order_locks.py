"""Queue locks of orderly consumption (requests 41, 42): one client of a group at a time, for a while.

Pure: the time is an argument. The handlers are in `clients/handlers.py`; sending to a retry topic asks it too. Owners
are kept over restarts by `order_lock_table.py`: a client that still works on a queue must not meet another there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...protocol.bodies.keyed import MessageQueue

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
        """Return the groups in which a queue has another owner, or none, since the last call.

        A renewal changes nothing.
        """
        changed, self._changed = sorted(self._changed), set()
        return changed

    def owners(self, group: str) -> dict[MessageQueue, str]:
        return {queue: lock.client_id for queue, lock in self._groups.get(group, {}).items()}

    def restore(self, group: str, owners: Mapping[MessageQueue, str], now: float) -> None:
        """Restore the locks. When they were renewed is not known: they count as if it were just now."""
        self._groups[group] = {queue: _Lock(client_id, now + self._lock_s) for queue, client_id in owners.items()}
