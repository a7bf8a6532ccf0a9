"""Empties one slot of the timer: what is due goes to its topic, what only came by goes on, what was recalled goes away.

`timers.py` calls it with slots in order of time. The messages of a slot leave in the order in which they came, a share
at a time, so that a slot may be as large as it likes. What could not be stored is tried again; nothing leaves twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ... import logs
from ...ambient import RunBlocking
from ...errors import RequestRefused
from ...kernel.records import Placed, Range
from ...model.message import Property
from ...model.names import HALF_TOPIC, TIMER_TOPIC
from ...model.wire_text import whole_number
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import GetStatus, KeyQuery, Selection
from ...store.timer.timer_log import Unit
from ...store.timer.timer_store import Due, TimerStore
from ..intake.intake import LogAccess
from ..loop_quarantine import LoopQuarantine
from .progress import TimerCounts
from .timer_park import delete_key, timer_copy, unpark

log = logs.get("pyromq.broker")

AT_ONCE = 1_000
BYTES_AT_ONCE = 4 << 20


class _Message(NamedTuple):
    unit: Unit
    record: Record
    pairs: dict[str, str]


@dataclass(slots=True, eq=False, repr=False)
class TimerSlots:
    """Event loop only, one call at a time."""

    access: LogAccess
    timers: TimerStore
    counts: TimerCounts
    run_blocking: RunBlocking
    quarantine: LoopQuarantine
    topic_in_key: bool  # a recall names topic and id, not the id alone (appendTopicForTimerDeleteKey)
    lost: int = 0
    # Units of the present slot that are done and counted, though others of it were refused.
    _departed: set[int] = field(default_factory=set)
    # Delivered just before a kill, and not yet noted: what came due until now may have left already.
    _doubtful_until: int = field(init=False)

    def __post_init__(self) -> None:
        self._doubtful_until = 0 if self.access.knows_what_left else self.access.doubtful_until()

    async def empty(self, due: Due) -> bool:
        """Deliver all of a due slot. False: some could not be stored, try the slot again later."""
        recalled = await self._recalled(due)
        for start in range(0, len(due.messages), AT_ONCE):
            positions = [at for at in due.messages[start : start + AT_ONCE] if at not in self._departed]
            units = await self.run_blocking(partial(self.timers.units, positions))
            for share in _shares(units):
                if not await self._deliver(share, recalled):
                    return False
        self._departed.clear()
        return True

    def start_anew(self) -> None:
        """Forget what departed: the timer's files were made anew, and the index knows what departed of a slot."""
        self._departed.clear()
        self._doubtful_until = self.access.doubtful_until()

    # --- recalls --------------------------------------------------------------------------------------------------

    async def _recalled(self, due: Due) -> set[str]:
        """Return the keys that were recalled.

        A recall's marker lowered its topic's count when it came; raise it again now. The recalled message lowers the
        count in its place: so a marker for nothing, or a second one for the same message, leaves nothing behind.
        """
        found: set[str] = set()
        for start in range(0, len(due.recalls), AT_ONCE):
            units = await self.run_blocking(partial(self.timers.units, due.recalls[start : start + AT_ONCE].tolist()))
            for one in await self._read(units):
                found.add(one.pairs.get(Property.TIMER_DEL_UNIQKEY, ""))
                if one.unit.position not in self._departed:
                    self._departed.add(one.unit.position)
                    self.counts.add(one.pairs.get(Property.REAL_TOPIC, ""), 1)
        return found

    # --- messages -------------------------------------------------------------------------------------------------

    async def _read(self, units: Sequence[Unit]) -> list[_Message]:
        """Return the messages whose records are there. One that was carried waits elsewhere; the others are lost."""
        start = self.access.store.commit_log.start
        own = [unit for unit in units if unit.record_position >= self.timers.carried_to]
        ranges = [Range(one.record_position, one.record_size, 0) for one in own if one.record_position >= start]
        raws = await self.access.store.read(Selection(GetStatus.FOUND, ranges, 0, 0, 0)) if ranges else []
        records = {record.physical_offset: record for record in self.quarantine.decode(raws, TIMER_TOPIC)}
        found = []
        for unit in own:
            record = records.get(unit.record_position)
            if unit.record_position in self.quarantine:
                self.counts.lose(unit.topic_hash)
            elif record is None or record.topic != TIMER_TOPIC:
                self.lost += 1
                self.counts.lose(unit.topic_hash)
                log.error(
                    "A TIMED MESSAGE IS LOST: its record is gone or damaged",
                    position=unit.record_position,
                    slot_ms=unit.slot_ms,
                    lost=self.lost,
                )
            else:
                found.append(_Message(unit, record, decode_properties(record.properties)))
        return found

    async def _deliver(self, units: Sequence[Unit], recalled: set[str]) -> bool:
        refusals: list[RequestRefused] = []
        seen: set[tuple[str, str, int]] = set()
        for one in await self._read(units):
            target = await self.quarantine.tried(one.record, self._target(one, recalled, seen))
            left = partial(self._left, one, target)
            if target is None:
                left(None)
            else:
                self.access.intake.put(target, self.quarantine.done(one.record, refusals, left))
        self.access.intake.flush()
        if refusals:
            log.error("timed messages wait: they cannot be stored", why=str(refusals[0]))
            return False
        self._departed.update(unit.position for unit in units)
        return True

    def _left(self, one: _Message, target: Record | None, placed: Placed | None) -> None:
        self._departed.add(one.unit.position)
        self.counts.add(one.pairs.get(Property.REAL_TOPIC, ""), -1)
        if target is not None and placed is not None:
            self.access.count(target.topic, target.queue_id, 1, placed.size)

    async def _target(self, one: _Message, recalled: set[str], seen: set[tuple[str, str, int]]) -> Record | None:
        """Return the record to put for a message whose slot has come; None if it departed or was recalled, or does not
        say where it belongs.
        """
        topic, unique = one.pairs.get(Property.REAL_TOPIC, ""), one.pairs.get(Property.UNIQ_KEY, "")
        is_recalled = not one.unit.is_roll and delete_key(self.topic_in_key, topic, unique) in recalled
        if is_recalled or await self._has_departed(one, seen):
            return None
        now = self.access.clock.now_ms()
        if one.unit.is_roll:
            return timer_copy(one.record, one.pairs, one.unit.written_ms, now, self.access.store_host)
        target = unpark(one.record, one.pairs, one.unit.written_ms, now, self.access.store_host)
        if target is None or target.topic == HALF_TOPIC:
            self.lost += 1
            log.error(
                "A TIMED MESSAGE IS LEFT OUT: it does not say where it belongs",
                position=one.record.physical_offset,
                real_topic=one.pairs.get(Property.REAL_TOPIC),
            )
            self.quarantine.put(one.record, "it does not say where it belongs")
            return None
        return target

    # --- once -----------------------------------------------------------------------------------------------------

    async def _has_departed(self, one: _Message, seen: set[tuple[str, str, int]]) -> bool:
        """Return whether the message, or a copy of it, departed before a kill: the index knows, by its unique id.

        Copies are made before their first record goes; a kill in between leaves both.
        """
        unique, topic = one.pairs.get(Property.UNIQ_KEY), one.pairs.get(Property.REAL_TOPIC, "")
        identity = (unique or "", topic, one.record.born_timestamp)
        is_copy = Property.TIMER_ROLL_TIMES in one.pairs
        known_twice = is_copy and identity in seen
        seen.add(identity)
        if unique is None or known_twice:
            return known_twice
        is_roll, slot_ms = one.unit.is_roll, one.unit.slot_ms
        out_ms = whole_number(one.pairs.get(Property.TIMER_OUT_MS)) or 0
        is_late = out_ms < slot_ms  # it came into the timer after its time, perhaps a second time
        if slot_ms > max(self._doubtful_until, self.timers.left_until_ms) and (is_roll or not (is_copy or is_late)):
            return False
        query = KeyQuery(TIMER_TOPIC if is_roll else topic, unique, begin=slot_ms if is_roll else out_ms)
        return any(self._is_later_copy(one, record) for record in await self.access.store.by_key(query))

    def _is_later_copy(self, one: _Message, found: Record) -> bool:
        return (
            found.physical_offset > one.record.physical_offset
            and found.born_timestamp == one.record.born_timestamp
            and found.reconsume_times == one.record.reconsume_times
            and found.body == one.record.body
            and (not one.unit.is_roll or Property.TIMER_ROLL_TIMES in decode_properties(found.properties))
        )


def _shares(units: Sequence[Unit]) -> Iterable[Sequence[Unit]]:
    """Yield shares of units whose records may be in memory together."""
    share: list[Unit] = []
    size = 0
    for unit in units:
        if share and size + unit.record_size > BYTES_AT_ONCE:
            yield share
            share, size = [], 0
        share.append(unit)
        size += unit.record_size
    if share:
        yield share
