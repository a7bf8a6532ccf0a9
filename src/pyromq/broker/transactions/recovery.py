"""After a kill: half messages that were ended already, though no note in the op topic says so. Called once at a start.

A commit puts the message and then its note. Between the two the index tells: a committed message says which half it
was. The same holds for one that was given up.
"""

from __future__ import annotations

from ... import logs
from ...model.message import Property, SysFlag
from ...model.names import CHECKS_EXHAUSTED_TOPIC, SCHEDULE_TOPIC
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery
from ...store.message_store import MessageStore
from .halves import Half, Halves
from .states import State

log = logs.get("pyromq.broker")


async def recover(store: MessageStore, halves: Halves) -> None:
    """Know what is undecided before the first end arrives."""
    await halves.look()
    if store.recovery.clean_stop:
        return
    for half in list(halves.undecided.values()):
        try:
            found = None if half.unique is None else await _found_ended(store, half, half.unique)
        except Exception as fault:
            halves.put_aside(half, fault)
            continue
        if found is None:
            continue
        log.info("a transaction was ended before the kill", id=half.unique, how=found.name.lower())
        halves.decide(half.offset, found)
        halves.settle(half.offset)
        halves.owe(half.offset)


async def _found_ended(store: MessageStore, half: Half, unique: str) -> State | None:
    for topic in (half.topic, SCHEDULE_TOPIC):  # it may wait for its delay
        for record in await store.by_key(KeyQuery(topic, unique)):
            if record.prepared_transaction_offset == half.position or _by_a_copy(record, half):
                return State.COMMITTED
    for record in await store.by_key(KeyQuery(CHECKS_EXHAUSTED_TOPIC, unique)):
        if record.physical_offset > half.position:
            return State.DISCARDED
    return None


def _by_a_copy(record: Record, half: Half) -> bool:
    """Java's broker copies a half before each check: one was committed, the other is left.

    Only copies count: a program may send the same message, with the same id, in two transactions.
    """
    pairs = decode_properties(record.properties)
    is_committed = bool(record.sys_flag & SysFlag.TRANSACTION_COMMIT) and pairs.get(Property.PGROUP) == half.group
    later = record.prepared_transaction_offset > half.position and Property.TRANSACTION_CHECK_TIMES in pairs
    return is_committed and (half.is_copy or later)
