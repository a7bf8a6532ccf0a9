"""Records of retry topics: as they are put when nobody acknowledged in time, and as they are handed out again. Pure.

A copy keeps body, keys and birth of its message. What a pop is given of it looks like a message of the topic that it
asked for; the receipt in POP_CK tells clients that it is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...config import Live
from ...model.message import Property
from ...model.receipt import NORMAL, Receipt
from ...model.wire_text import INT_MAX
from ...protocol.properties import decode_properties, rejoin_properties
from ...protocol.record import MAGIC_V1, Record, decode_record, encode_record
from ..config import BrokerConfig
from ..intake.parking import copy_record, fit_properties
from .seams import Place
from .tickets import PopTicket

_WAY = (Property.REAL_TOPIC, Property.REAL_QID, Property.ORIGIN_MESSAGE_ID)  # goes where there is no room for all


def retry_copy(
    message: Record, group: str, topic: str, queue_id: int, pop_time: int, suspend: bool, store_host: bytes
) -> Record:
    """Return the record that is put into a retry topic. `suspend`: this delivery does not count."""
    pairs = decode_properties(message.properties)
    pairs.pop(Property.POP_CK, None)
    if message.reconsume_times == 0 or Property.FIRST_POP_TIME not in pairs:
        pairs[Property.FIRST_POP_TIME] = str(pop_time)
    pairs[Property.ORIGIN_GROUP] = group
    record = copy_record(message, fit_properties(pairs, "retry", _WAY), topic, queue_id, store_host)
    record.born_host = store_host
    record.reconsume_times = min(message.reconsume_times + (not suspend), INT_MAX)
    return record


def as_handed_out(
    ticket: PopTicket, place: Place, start: int, records: Sequence[bytes], live: Live[BrokerConfig]
) -> Sequence[bytes]:
    """Return the records as the answer has them: those of a retry topic under the name that was asked for."""
    if place.mark == NORMAL or live.config.pop_response_return_actual_retry_topic:
        return records
    broker = live.config.broker_name
    return [_under_its_topic(raw, ticket, place, start, broker) for raw in records]


def _under_its_topic(raw: bytes, ticket: PopTicket, place: Place, start: int, broker: str) -> bytes:
    record = decode_record(raw, verify=False)
    receipt = Receipt(
        start,
        ticket.pop_time,
        ticket.header.invisible_time,
        ticket.revive_queue,
        place.mark,
        broker,
        record.queue_id,
        record.queue_offset,
    )
    pairs = decode_properties(record.properties)
    pairs.pop(Property.CRC32, None)  # it is that of the record as it is stored
    pairs.setdefault(Property.POP_CK, receipt.encode())
    record.properties = rejoin_properties(pairs)
    record.topic, record.magic = ticket.header.topic, MAGIC_V1
    return encode_record(record)
