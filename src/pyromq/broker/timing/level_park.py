"""Where a delayed message waits: SCHEDULE_TOPIC_XXXX, the queue of its level. Pure: records in, records out.

`intake` asks it for every send with a delay level; retries and the carrying forward of pending messages use `until`.
The time at which a message is due follows from its store time and level (the store writes it into the queue entry).
A time that no level has is reached by hops: the longest level that fits, then the next, the last one up to a second
late. What belongs to the hops stands in two properties of ours, which are gone when the message is delivered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ...errors import RequestRefused
from ...kernel.records import DelayLevels
from ...kernel.sends import Detour, Way
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.names import SCHEDULE_TOPIC
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.properties import decode_properties, find_property
from ...protocol.record import Record
from ..intake.message_type import TIMERS, delay_level
from ..intake.parking import MOST_AT_FIRST, appended, check_fits, copy_record, destination, fit_properties

WAIT = "delay"  # as refusals name it
OF_WAITS = re.compile(b"REAL_|TIMER_(?:OUT_MS|ROLL|E|DEQ)|PYRO_D(?:UE|ELAY)|__CRC32#")  # what a wait writes anew
DUE = Property.OWN_DUE_MS
WANTED_LEVEL = Property.OWN_DELAY
_DELAY = Property.DELAY.encode()
_LEFT = (b"REAL_", b"TIMER_", b"PYRO_D", b"__CRC32#")  # what a message may have that has waited before: never plain
_BEFORE = (Property.TIMER_ROLL_TIMES, Property.TIMER_OUT_MS, Property.ORIGIN_MESSAGE_ID)  # of ways that are behind it
_WAY = (Property.REAL_TOPIC, Property.REAL_QID, Property.DELAY)  # what a delivered message can do without


class LevelPark:
    """Of one table of levels. Event loop only."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels
        self.detour = Detour(
            name=_DELAY,
            topic=SCHEDULE_TOPIC,
            ways={b"%d" % level: Way(level - 1, wait_ms) for level, wait_ms in levels.items()},
            topic_name=Property.REAL_TOPIC.encode(),
            queue_name=Property.REAL_QID.encode(),
            id_name=b"",
            without=_LEFT,
            cleared_bits=0,
            property_bytes=MOST_AT_FIRST,
        )

    def __call__(self, record: Record, properties: Mapping[str, str]) -> Record | None:
        """Return the record to store, for `Intake`, with space for properties added later; None: it has no level."""
        parked = self.park(record, properties)
        if parked is not None:
            check_fits(parked.properties, WAIT)
        return parked

    def park(self, record: Record, properties: Mapping[str, str]) -> Record | None:
        """Park a message accepted before: it drops expendable properties rather than being refused."""
        level = delay_level(properties)
        return self.at_level(record, level) if level > 0 else None

    def at_level(self, record: Record, level: int) -> Record:
        """Park at a level; one above the highest means the highest, in the stored property too. Timers give way."""
        level = self._known(level)
        raw = record.properties
        if b"TIMER_" not in raw and record.topic != SCHEDULE_TOPIC and find_property(raw, _DELAY) == b"%d" % level:
            quick = appended(raw, self._place(record), OF_WAITS)
            if quick is not None:
                return _at(record, level, quick)
        pairs = decode_properties(raw)
        for name in (*TIMERS, DUE, WANTED_LEVEL):
            pairs.pop(name, None)
        return self._parked(record, level, pairs)

    def delay_ms(self, level: int) -> int | None:
        return self._levels.get(level)

    def until(self, record: Record, level: int, due_ms: int, now_ms: int) -> Record:
        """Park until a time of its own; the delivered message says `level`."""
        pairs = decode_properties(record.properties)
        pairs |= {DUE: str(due_ms), WANTED_LEVEL: str(level)}
        fitting = [number for number, delay in self._levels.items() if delay <= due_ms - now_ms]
        self._known(1)  # says so if there is no level at all
        delay_ms = self._levels.__getitem__
        hop = max(fitting, key=delay_ms) if fitting else min(self._levels, key=delay_ms)
        return self._parked(record, hop, pairs)

    def _known(self, level: int) -> int:
        if not self._levels:
            raise RequestRefused(
                "the message is illegal: this broker has no delay levels, its messageDelayLevel is empty",
                ResponseCode.MESSAGE_ILLEGAL,
            )
        return min(level, max(self._levels))

    def _parked(self, record: Record, level: int, pairs: dict[str, str]) -> Record:
        pairs[Property.DELAY] = str(level)
        if record.topic != SCHEDULE_TOPIC:  # else it waits already, and knows its way
            pairs |= self._place(record)
        return _at(record, level, fit_properties(pairs, WAIT, _BEFORE))

    def _place(self, record: Record) -> dict[str, str]:
        return self.detour.noted(record.topic, record.queue_id, "")


def _at(record: Record, level: int, properties: bytes) -> Record:
    return msgspec.structs.replace(
        record, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties, physical_offset=0
    )


def due_of(pairs: Mapping[str, str], entry_due_ms: int) -> int:
    """Return when a waiting message is due: its own time, else that of its queue entry."""
    own_ms = whole_number(pairs.get(DUE))
    return entry_due_ms if own_ms is None else own_ms


def wanted_level(pairs: Mapping[str, str]) -> int:
    """Return the level that the message was given, 0 where neither property says one."""
    return whole_number(pairs.get(WANTED_LEVEL) or pairs.get(Property.DELAY), -INT_MAX - 1, INT_MAX) or 0


def unpark(record: Record, pairs: dict[str, str], store_host: bytes) -> Record | None:
    """Return the message as it reaches its topic, with DELAY, REAL_TOPIC and REAL_QID as Java leaves them in it.

    None if the record does not say where it belongs.
    """
    home = destination(pairs)
    if home is None:
        return None
    properties = record.properties
    if DUE in pairs:
        level = wanted_level(pairs)
        kept = {name: value for name, value in pairs.items() if name not in (DUE, WANTED_LEVEL)}
        properties = fit_properties(kept | {Property.DELAY: str(level)}, WAIT, _WAY)
    return copy_record(record, properties, *home, store_host)
