"""Messages that wait somewhere else before they reach their topic: delayed ones, timed ones, halves of transactions.

A park takes a record and its properties and gives back the record to store instead, or None if it is not concerned.
Delay levels and timers are parked by `timing`, halves by `transactions`. Lite topics are refused here: a message that
was accepted and never delivered would be worse than an error.

A parked message's properties must fit into a record together with those of its wait. A park checks at the send that
whatever is added until delivery will fit (`check_fits`). Loops, retries and carriers, which write a message again, drop
properties that only describe its way until the rest fits (`fit_properties`): so a message that was accepted never
becomes too large afterwards. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.properties import MAX_PROPERTIES_BYTES, rejoin_properties
from ...protocol.record import CRC_PROPERTY_BYTES, Record
from .message_type import LITE, message_type

Park: TypeAlias = Callable[[Record, Mapping[str, str]], Record | None]

MAX_PARKED_BYTES = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES
RESERVED_BYTES = 128  # for what a wait adds until delivery; a timer, which adds the most, needs 102
MOST_AT_FIRST = MAX_PARKED_BYTES - RESERVED_BYTES  # of a message that begins to wait

# What a broker writes for people to read, the least wanted first: dropped where the rest would not fit.
EXPENDABLE = (
    Property.TIMER_ENQUEUE_MS,
    Property.TIMER_DEQUEUE_MS,
    Property.TRANSACTION_CHECK_TIMES,
    Property.CLUSTER,
    Property.TRACE_ON,
    Property.MSG_REGION,
)


def refuse_what_nobody_delivers(record: Record, properties: Mapping[str, str]) -> Record | None:
    """Refuse messages of lite topics, which have no park."""
    if Property.LITE_TOPIC in properties and message_type(properties) == LITE:
        raise RequestRefused(
            "lite topics are not served by this broker yet: send the message without __LITE_TOPIC",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return None


def copy_record(record: Record, properties: bytes, topic: str, queue_id: int, store_host: bytes) -> Record:
    """Return a copy of the message as a new record, with no place in the log yet."""
    return Record(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times,
    )


def destination(pairs: Mapping[str, str]) -> tuple[str, int] | None:
    """Return topic and queue that a parked message belongs to; None if it does not say so."""
    topic, queue_id = pairs.get(Property.REAL_TOPIC, ""), whole_number(pairs.get(Property.REAL_QID), high=INT_MAX)
    return None if not topic or queue_id is None else (topic, queue_id)


def check_fits(raw: bytes, wait: str) -> bytes:
    """Return the properties of a message that begins to wait. RequestRefused if what is added later would not fit."""
    return _within(raw, wait, MOST_AT_FIRST)


def fit_properties(pairs: Mapping[str, str], wait: str, also: Iterable[str] = ()) -> bytes:
    """Encode the properties, dropping the expendable ones and then `also`, one by one, until the rest fits.

    RequestRefused if what is left still does not fit: no broker accepts a message that large.
    """
    kept = {name: value for name, value in pairs.items() if name != Property.CRC32}
    raw = rejoin_properties(kept)
    for name in (*EXPENDABLE, *also):
        if len(raw) <= MAX_PARKED_BYTES:
            return raw
        if kept.pop(name, None) is not None:
            raw = rejoin_properties(kept)
    return _within(raw, wait, MAX_PARKED_BYTES)


def appended(raw: bytes, pairs: Mapping[str, str], others: re.Pattern[bytes]) -> bytes | None:
    """Append new properties to encoded ones without decoding them. None: the caller has to decode.

    That is so where one of the `others`, which would have to go, is there already, or where the result would not fit.
    """
    if not raw.endswith(b"\x02") or others.search(raw) is not None:
        return None
    whole = raw + rejoin_properties(pairs)
    return whole if len(whole) <= MAX_PARKED_BYTES else None


def _within(raw: bytes, wait: str, limit: int) -> bytes:
    if len(raw) > limit:
        raise RequestRefused(
            f"the message is illegal: with those of its {wait}, its properties take {len(raw)} bytes, "
            f"the limit is {limit}",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    return raw
