"""Who owns which queue of an orderly group, kept in `pyromq/orderLocks.json` over restarts and kills.

Java's broker forgets its locks when it stops. Members then come back one by one, and the first may be given queues with
messages on which another one is still at work: out of order. Changes of owners are written, renewals are not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from ... import logs
from ...errors import PyroError
from ...protocol.bodies.keyed import MessageQueue
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import entry, section
from .order_locks import OrderLocks

log = logs.get("pyromq.broker")

LOCKS = "locks"


class KeptLock(msgspec.Struct, rename="camel"):
    """As it stands in the file."""

    broker_name: str
    topic: str
    queue_id: int
    client_id: str


class OrderLockTable:
    """Event loop only. `saved` returns once the table is on disk."""

    def __init__(self, table: JsonTable, locks: OrderLocks, now: float, saved: Callable[[], Awaitable[None]]) -> None:
        self._table = table
        self._locks = locks
        self._saved = saved
        for group, kept in section(table.load(), LOCKS).items():
            found = entry(list[KeptLock], kept, f"{LOCKS} of {group} in {table.name}")
            locks.restore(group, {_queue(one): one.client_id for one in found}, now)

    def note(self) -> bool:
        """Take over what changed; True: somebody has to write the table."""
        groups = self._locks.take_changed()
        for group in groups:
            owners = self._locks.owners(group)
            if owners:
                self._table.put(LOCKS, group, [msgspec.to_builtins(_kept(*one)) for one in owners.items()])
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


def _queue(kept: KeptLock) -> MessageQueue:
    return MessageQueue(broker_name=kept.broker_name, queue_id=kept.queue_id, topic=kept.topic)


def _kept(queue: MessageQueue, client_id: str) -> KeptLock:
    return KeptLock(broker_name=queue.broker_name, topic=queue.topic, queue_id=queue.queue_id, client_id=client_id)
