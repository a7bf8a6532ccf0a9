"""Finds half messages that were ended before a kill, though no op message says so. Called once at a start.

A commit puts the message and then its op message. After a kill between the two the index has the committed message,
which says which half it was. The same holds for a half message that was given up.
"""

from __future__ import annotations

from ... import logs
from ...model.message import Property, SysFlag
from ...model.names import CHECKS_EXHAUSTED_TOPIC, SCHEDULE_TOPIC
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery
from ...store.message_store import MessageStore
from .halves import Halves
from .states import Event
from .undecided import Half

log = logs.get("pyromq.broker")


async def recover(store: MessageStore, halves: Halves) -> None:
    """Find out what is undecided, before the first end arrives."""
    await halves.catch_up()
    if store.recovery.clean_stop:
        return
    for half in halves.undecided.all():
        try:
            found = None if half.unique is None else await _found_ended(store, half, half.unique)
        except Exception as fault:
            halves.put_into_quarantine(half, fault)
            continue
        if found is None:
            continue
        state = halves.ledger.move(half.offset, found)
        log.info("a transaction was ended before the kill", id=half.unique, how=state.name.lower())
        halves.undecided.remove(half.offset)
        halves.ops.owe(half.offset)


async def _found_ended(store: MessageStore, half: Half, unique: str) -> Event | None:
    for topic in (half.topic, SCHEDULE_TOPIC):  # it may wait for its delay
        for record in await store.by_key(KeyQuery(topic, unique)):
            if record.prepared_transaction_offset == half.position or _by_a_copy(record, half):
                return Event.COMMIT
    for record in await store.by_key(KeyQuery(CHECKS_EXHAUSTED_TOPIC, unique)):
        if record.physical_offset > half.position:
            return Event.CHECKS_EXHAUSTED
    return None


def _by_a_copy(record: Record, half: Half) -> bool:
    """Tell whether a copy of this half was committed: Java's broker makes one before each check.

    Only copies count: a program may send the same message, with the same id, in two transactions.
    """
    pairs = decode_properties(record.properties)
    is_committed = bool(record.sys_flag & SysFlag.TRANSACTION_COMMIT) and pairs.get(Property.PGROUP) == half.group
    later = record.prepared_transaction_offset > half.position and Property.TRANSACTION_CHECK_TIMES in pairs
    return is_committed and (half.is_copy or later)
