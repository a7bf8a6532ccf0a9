"""How undecided half messages outlive their log file, and what is found out about them after a kill.

Retention calls `HalfCarrier` before it deletes a log file: they are put again. A start calls `recover` once: a commit
puts the message and then its op message. After a kill between the two the index has the committed message, which says
which half it was. The same holds for a half message that was given up.
"""

from __future__ import annotations

from functools import partial

from ... import logs
from ...errors import RequestRefused
from ...model.message import Property, SysFlag
from ...model.names import CHECKS_EXHAUSTED_TOPIC, SCHEDULE_TOPIC
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery
from ...store.message_store import MessageStore
from ..intake.intake import Outcome
from ..loop_quarantine import is_fault_of_record
from .half_records import half_copy
from .halves import Halves
from .states import Event
from .undecided import Half

log = logs.get("pyromq.broker")

AT_ONCE = 100


class HalfCarrier:
    """Event loop only."""

    def __init__(self, halves: Halves) -> None:
        self._halves = halves
        self._store, self._intake = halves.access.store, halves.access.intake

    async def __call__(self, start: int, end: int) -> None:
        """Put again what is undecided below `end`. Raise where one cannot be put: then the file must stay."""
        await self._halves.catch_up()
        is_undecided = self._halves.ledger.is_undecided
        going = [half for half in self._halves.undecided.all() if half.position < end]
        unreadable: set[int] = set()
        for number, half in enumerate(going, 1):
            record = await self._store.ask(partial(self._store.reader.record_at, half.position))
            if record is None:
                unreadable.add(half.offset)  # damaged: the next check says so
            elif is_undecided(half.offset):
                self._put_again(half, record)
            if number % AT_ONCE == 0 or number == len(going):
                self._intake.flush()
                self._halves.ops.put_gathered()
                self._intake.flush()
        remaining = sum(is_undecided(half.offset) for half in going if half.offset not in unreadable)
        if remaining:
            raise RequestRefused(f"{remaining} half messages cannot be put again: see the lines before")
        if going:
            await self._store.flush_log()  # the old copies go next
            log.info("half messages carried forward", messages=len(going), start=start, end=end)

    def _put_again(self, half: Half, record: Record) -> None:
        """Put a copy. One that cannot be copied goes into quarantine: its file has to be deleted some day."""
        try:
            copy = half_copy(record, half.checks, self._halves.access.store_host)
        except Exception as fault:
            self._halves.put_into_quarantine(half, fault)
        else:
            self._intake.put(copy, partial(self._placed, half))

    def _placed(self, half: Half, outcome: Outcome) -> None:
        if outcome.refusal is None:
            self._halves.copied(half, outcome.places[-1])
        elif is_fault_of_record(outcome.refusal):
            self._halves.put_into_quarantine(half, outcome.refusal)
        else:
            log.error("a half message cannot be put again", id=half.unique, why=str(outcome.refusal))


async def recover(store: MessageStore, halves: Halves) -> None:
    """Find out what is undecided, before the first end arrives."""
    await halves.catch_up()
    if halves.access.knows_what_left:
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
