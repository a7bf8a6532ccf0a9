"""Half messages: how one waits, how it looks once it is committed or given up. Pure: records in, records out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from ...errors import RequestRefused
from ...kernel.sends import Detour, EndRules, Way
from ...model.codes import ResponseCode
from ...model.message import Property, SysFlag
from ...model.names import CHECKS_EXHAUSTED_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.properties import PAIR_END, decode_properties, encode_properties, find_property, rejoin_properties
from ...protocol.record import Record
from ..intake.message_type import TIMERS, TRANSACTION, delay_level, message_type
from ..intake.parking import MAX_PARKED_BYTES, MOST_AT_FIRST, appended, check_fits, copy_record

_PAIR_END = PAIR_END.encode()
_UNIQ_KEY = Property.UNIQ_KEY.encode()
_CRC = Property.CRC32.encode()
_PLACE = (_REAL_TOPIC, _REAL_QID) = (Property.REAL_TOPIC.encode(), Property.REAL_QID.encode())
_CHECK_TIMES = (Property.TRANSACTION_CHECK_TIMES.encode(),)
_COMMIT_LEAVES_OUT = tuple(name + b"\x01" for name in (*_PLACE, _CRC))
_WAIT = "transaction"
DETOUR = Detour(
    name=Property.TRAN_MSG.encode(),
    topic=HALF_TOPIC,
    ways={b"true": Way(0)},
    topic_name=Property.REAL_TOPIC.encode(),
    queue_name=Property.REAL_QID.encode(),
    id_name=Property.TRANSACTION_ID.encode(),
    without=(*_PLACE, Property.TRANSACTION_ID.encode(), _CRC),
    cleared_bits=SysFlag.TRANSACTION_MASK,
    property_bytes=MOST_AT_FIRST,
)
_REPLACED = re.compile(b"|".join(DETOUR.without))
_OP_PROPERTIES = encode_properties({Property.TAGS: "d", Property.WAIT: "true"})


def park_half(record: Record, properties: Mapping[str, str]) -> Record | None:
    """Return the record of the half topic, for `Intake`. None: it is no half message.

    A delay level stays with it and counts from the commit on. A retry that a client sends itself is no half any more.
    """
    if Property.TRAN_MSG not in properties or message_type(properties) != TRANSACTION:
        return None
    if record.reconsume_times > 0 and delay_level(properties) > 0:
        return None
    timers = [name for name in TIMERS if name in properties]
    if timers and delay_level(properties) <= 0:
        raise RequestRefused(
            f"a transactional message cannot have a timer ({timers[0]}): send it with a delay level, which counts "
            f"from the commit on, or without delay",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    unique = text_of(record, _UNIQ_KEY)  # the sender's or, without one, the broker's
    added = DETOUR.noted(record.topic, record.queue_id, unique)
    return msgspec.structs.replace(
        record,
        topic=HALF_TOPIC,
        queue_id=0,
        sys_flag=record.sys_flag & ~DETOUR.cleared_bits,
        properties=_with(record.properties, added),
    )


def committed(half: Record, checks: int, store_host: bytes) -> Record | None:
    """Return the message as consumers get it; None if the half does not say where it belongs."""
    topic, queue_id = text_of(half, _REAL_TOPIC), whole_number(find_property(half.properties, _REAL_QID), high=INT_MAX)
    if not topic or queue_id is None:
        return None
    kept = _without(half.properties, _PLACE)
    record = _copy(half, _counted(kept, checks) if checks else kept, topic, queue_id, store_host)
    record.sys_flag |= SysFlag.TRANSACTION_COMMIT
    record.prepared_transaction_offset = half.physical_offset
    return record


def discarded(half: Record, checks: int, store_host: bytes) -> Record:
    """Return the record of a message that nobody decided: it is kept where an administrator can find it."""
    return _copy(half, _counted(half.properties, checks), CHECKS_EXHAUSTED_TOPIC, 0, store_host)


def half_copy(half: Record, checks: int, store_host: bytes) -> Record:
    return _copy(half, _counted(half.properties, checks), HALF_TOPIC, 0, store_host)


def shown(half: Record, checks: int) -> Record:
    """Return the message for its producer to check: with its own topic and queue, and the number of checks."""
    topic = text_of(half, _REAL_TOPIC) or half.topic
    number = whole_number(find_property(half.properties, _REAL_QID), high=INT_MAX) or 0
    return msgspec.structs.replace(half, topic=topic, queue_id=number, properties=_counted(half.properties, checks))


def text_of(half: Record, name: bytes) -> str:
    """Return one property, "" without it. Decoding all of them would be for nothing when a half message is ended."""
    value = find_property(half.properties, name)
    return "" if value is None else value.decode("utf-8", "replace")


def op(offsets: Iterable[int], now_ms: int, store_host: bytes) -> Record:
    """Return the record that says which half messages are decided."""
    return Record(
        topic=OP_HALF_TOPIC,
        queue_id=0,
        body="".join(f"{offset}," for offset in offsets).encode(),
        properties=_OP_PROPERTIES,
        born_timestamp=now_ms,
        born_host=store_host,
        store_host=store_host,
    )


def op_offsets(body: bytes) -> list[int]:
    """Return the offsets of an op record: 5.x writes several with commas, 4.9 one without."""
    return [offset for part in body.split(b",") if (offset := whole_number(part)) is not None]


def _counted(raw: bytes, checks: int) -> bytes:
    """Return the properties with the number of checks; without it where that does not fit: checks must go on."""
    kept = _without(raw, _CHECK_TIMES)
    counted = kept + b"%b\x01%d\x02" % (_CHECK_TIMES[0], checks)
    return counted if len(counted) <= MAX_PARKED_BYTES else kept


def _copy(half: Record, properties: bytes, topic: str, queue_id: int, store_host: bytes) -> Record:
    record = copy_record(half, properties, topic, queue_id, store_host)
    record.sys_flag &= ~SysFlag.TRANSACTION_MASK
    return record


def end_rules(json: tuple[bytes, bytes], binary: bytes) -> EndRules:
    """Return the usual case of `committed` as a kernel takes it, with the answers to a commit.

    What was asked about, has an immunity or a delay level is left to the handlers.
    """
    return EndRules(
        topic=HALF_TOPIC,
        topic_mark=_REAL_TOPIC + b"\x01",
        queue_mark=_REAL_QID + b"\x01",
        group_mark=Property.PGROUP.encode() + b"\x01",
        dropped=_COMMIT_LEAVES_OUT,
        without=[
            name.encode() + b"\x01"
            for name in (Property.DELAY, Property.CHECK_IMMUNITY_TIME_IN_SECONDS, Property.TRANSACTION_CHECK_TIMES)
        ],
        json=json,
        binary=binary,
    )


def _with(raw: bytes, added: dict[str, str]) -> bytes:
    """Add properties. Mostly none of them is there before, and a property string can be continued as it is."""
    whole = appended(raw, added, _REPLACED)
    if whole is None:
        pairs = decode_properties(raw) | added
        pairs.pop(Property.CRC32, None)
        whole = rejoin_properties(pairs)
    return check_fits(whole, _WAIT)


def _without(raw: bytes, names: tuple[bytes, ...]) -> bytes:
    """Return the properties without `names`, and without the CRC of the old record."""
    heads = tuple(name + b"\x01" for name in (*names, _CRC))
    return b"".join(pair + _PAIR_END for pair in raw.split(_PAIR_END) if pair and not pair.startswith(heads))
