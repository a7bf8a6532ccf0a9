"""Records of timed messages: as one waits in `rmq_sys_wheel_timer`, its copy, and as it reaches its topic. Pure.

`timer_park.py` makes the first record, the timer's loops the others. Properties are those that Java leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ...model.java_hash import java_hash
from ...model.message import Property
from ...model.names import TIMER_TOPIC
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.properties import find_property
from ...protocol.record import Record, locate
from ...store.timer.timer_store import TimedRecord
from ..intake.copies import copy_record, destination
from .properties import fit_properties

_OUT = Property.TIMER_OUT_MS.encode()
_RECALLS = Property.TIMER_DEL_UNIQKEY.encode()
_TOPIC = Property.REAL_TOPIC.encode()
_TURNS = Property.TIMER_ROLL_TIMES
_WAY = (_TURNS, Property.TIMER_OUT_MS, Property.REAL_TOPIC, Property.REAL_QID)  # what a delivered one can do without


def slot_of(due_ms: int, precision_ms: int) -> int:
    """Return the slot of a time, as Java rounds: it is taken one precision later, so never early."""
    return (due_ms - 1) // precision_ms * precision_ms


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
    properties = fit_properties(_stamped(pairs, enqueued_ms, now_ms), _WAY)
    return copy_record(record, properties, *home, store_host)


def timer_copy(record: Record, pairs: Mapping[str, str], enqueued_ms: int, now_ms: int, store_host: bytes) -> Record:
    """Return a copy that waits on: the rest of its time, or beyond the log file that it is in."""
    turns = (whole_number(pairs.get(_TURNS), high=INT_MAX - 1) or 0) + 1
    properties = fit_properties(_stamped(pairs, enqueued_ms, now_ms) | {_TURNS: str(turns)}, (_TURNS,))
    return copy_record(record, properties, TIMER_TOPIC, 0, store_host)


def _stamped(pairs: Mapping[str, str], enqueued_ms: int, now_ms: int) -> dict[str, str]:
    times = {Property.TIMER_ENQUEUE_MS: str(enqueued_ms), Property.TIMER_DEQUEUE_MS: str(now_ms)}
    return dict(pairs) | times
