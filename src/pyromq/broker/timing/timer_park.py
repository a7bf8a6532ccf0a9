"""Where a timed message waits, rmq_sys_wheel_timer, until the slot of its time, and the records on its way.

`intake` asks the park for every send with a timer property, `recall.py` parks its markers by it. The timer's loops make
copies and what reaches a topic. Properties are those that Java leaves. Pure: records in, records out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from ...config import Live
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.java_hash import java_hash
from ...model.message import Property
from ...model.names import TIMER_TOPIC
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.properties import decode_properties, find_property
from ...protocol.record import Record, locate
from ...store.timer.timer_store import TimedRecord
from ..config import BrokerConfig
from ..intake.message_type import TIMERS, delay_level
from ..intake.parking import appended, check_fits, copy_record, destination, fit_properties
from .level_park import OF_WAITS, WAIT

UNLIMITED = INT_MAX
_BEFORE = (Property.TIMER_ENQUEUE_MS, Property.TIMER_DEQUEUE_MS, Property.TIMER_ROLL_TIMES)
_OUT = Property.TIMER_OUT_MS.encode()
_RECALLS = Property.TIMER_DEL_UNIQKEY.encode()
_TOPIC = Property.REAL_TOPIC.encode()
_TURNS = Property.TIMER_ROLL_TIMES
_WAY = (_TURNS, Property.TIMER_OUT_MS, Property.REAL_TOPIC, Property.REAL_QID)  # what a delivered one can do without


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimerPark:
    """Event loop only."""

    live: Live[BrokerConfig]
    now_ms: Callable[[], int]
    count_at: Callable[[int], int]  # how many wait in a slot
    draw: Callable[[int], int]  # one of the numbers below its argument, by chance

    def __call__(self, record: Record, properties: Mapping[str, str]) -> Record | None:
        """Return the message as it waits, for `Intake`; None if it has no timer, or one that is due already."""
        given = next((name for name in TIMERS if name in properties), None)
        if given is None or delay_level(properties) > 0:
            return None
        if Property.TIMER_OUT_MS in properties or record.topic == TIMER_TOPIC:
            return None  # it waited already: a consumer sends on what it got
        config, now = self.live.config, self.now_ms()
        if not config.timer_wheel_enable:
            raise RequestRefused(
                "accurate timer message is not enabled, timerWheelEnable is false", ResponseCode.SYSTEM_ERROR
            )
        due_ms = _due(given, properties[given], now)
        most = config.timer_max_delay_sec * 1000
        if due_ms - now > most:
            raise _illegal(f"{given} = {properties[given]} is {due_ms - now} ms away", most)
        if due_ms <= now:
            if Property.TIMER_DEL_UNIQKEY in properties:
                raise _illegal("the message to be recalled is due already", most)
            return None
        self._check_congestion(slot_of(due_ms, config.timer_precision_ms), config.timer_congest_num_each_slot)
        parked = self.until(record, due_ms)
        check_fits(parked.properties, WAIT)
        return parked

    def _check_congestion(self, slot_ms: int, most: int) -> None:
        """Refuse a growing share above the limit, above twice the limit all."""
        if most >= UNLIMITED:
            return
        excess = self.count_at(slot_ms) - most
        if excess > 0 and self.draw(most) < excess:
            raise RequestRefused(
                f"timer message is under flow control: {excess + most} wait for the same time, "
                f"timerCongestNumEachSlot is {most}",
                ResponseCode.SYSTEM_ERROR,
            )

    def until(self, record: Record, due_ms: int) -> Record:
        """Park until a time, whatever the limits."""
        own: dict[str, str] = {
            Property.TIMER_OUT_MS: str(slot_of(due_ms, self.live.config.timer_precision_ms)),
            Property.REAL_TOPIC: record.topic,
            Property.REAL_QID: str(record.queue_id),
        }
        properties = appended(record.properties, own, OF_WAITS)
        if properties is None:
            pairs = decode_properties(record.properties)
            kept = {name: value for name, value in pairs.items() if name not in _BEFORE}
            properties = fit_properties(kept | own, WAIT)
        return msgspec.structs.replace(record, topic=TIMER_TOPIC, queue_id=0, properties=properties)


def _due(name: str, text: str, now: int) -> int:
    """Return the time for which it waits. What is no number was refused before (`send/properties.py`)."""
    number = whole_number(text, -LONG_MAX, LONG_MAX) or 0
    if name == Property.TIMER_DELIVER_MS:
        return number
    return now + (number * 1000 if name == Property.TIMER_DELAY_SEC else number)


def _illegal(why: str, most: int) -> RequestRefused:
    return RequestRefused(
        f"timer message illegal, the delay time should not be bigger than the max delay {most}ms "
        f"(timerMaxDelaySec={most // 1000}); "
        f"or if set del msg, the delay time should be bigger than the current time: {why}",
        ResponseCode.MESSAGE_ILLEGAL,
    )


def slot_of(due_ms: int, precision_ms: int) -> int:
    """Return the slot of a time, as Java rounds: it is taken one precision later, so never early."""
    return (due_ms - 1) // precision_ms * precision_ms


def delete_key(topic_in_key: bool, topic: str, unique: str) -> str:
    """Return how a recall names its message; a setting that all brokers of the store must agree on."""
    return f"{topic}+{unique}" if topic_in_key else unique


def waiting(raw: bytes) -> TimedRecord | None:
    """Return what the timer must know of a record of its topic; None if it does not say for what it waits."""
    found = locate(raw)
    properties = raw[found.properties_at : found.end]
    out, topic = whole_number(find_property(properties, _OUT)), find_property(properties, _TOPIC)
    if out is None or topic is None:
        return None
    return TimedRecord(
        found.queue_offset,
        found.physical_offset,
        found.size,
        out,
        *_topic(topic),
        find_property(properties, _RECALLS) is not None,
    )


@lru_cache(maxsize=1 << 12)
def _topic(name: bytes) -> tuple[str, int]:
    topic = name.decode("utf-8", "replace")
    return topic, java_hash(topic)


def unpark(record: Record, pairs: Mapping[str, str], enqueued_ms: int, now_ms: int, store_host: bytes) -> Record | None:
    """Return the message as it reaches its topic; None if the record does not say where it belongs."""
    home = destination(pairs)
    if home is None:
        return None
    properties = fit_properties(_stamped(pairs, enqueued_ms, now_ms), WAIT, _WAY)
    return copy_record(record, properties, *home, store_host)


def timer_copy(record: Record, pairs: Mapping[str, str], enqueued_ms: int, now_ms: int, store_host: bytes) -> Record:
    """Return a copy that waits on: the rest of its time, or beyond the log file that it is in."""
    turns = (whole_number(pairs.get(_TURNS), high=INT_MAX - 1) or 0) + 1
    properties = fit_properties(_stamped(pairs, enqueued_ms, now_ms) | {_TURNS: str(turns)}, WAIT, (_TURNS,))
    return copy_record(record, properties, TIMER_TOPIC, 0, store_host)


def _stamped(pairs: Mapping[str, str], enqueued_ms: int, now_ms: int) -> dict[str, str]:
    times = {Property.TIMER_ENQUEUE_MS: str(enqueued_ms), Property.TIMER_DEQUEUE_MS: str(now_ms)}
    return dict(pairs) | times
