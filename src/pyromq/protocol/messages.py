"""Pulled bodies: concatenated records into messages, decompressed, inner batches unwrapped.

Nearly every record of a pull is plain: IPv4 hosts, no compression, no inner batch. Those are read in one step; what is
odd in any way, or damaged, goes through `record.py`, which says what is wrong with it. `read_messages` goes record by
record: one that nobody can read takes none of its neighbours with it, and large ones are made only up to a budget.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from ..errors import ProtocolError, PyroError
from ..model.message import MOST_INNER_MESSAGES, WRAPPED_BATCH, Property, StoredMessage, SysFlag
from ..model.wire_text import whole_number
from .batch import decode_batch
from .compression import DEFAULT_PLAIN_LIMIT, CompressionMissing, compression_of, decompress
from .properties import decode_properties
from .record import (
    CRC_BITS,
    CRC_NAME,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    MAGIC_V1,
    Record,
    RecordError,
    decode_record,
    decode_remains,
    framed_bytes,
)

_HEAD = struct.Struct(">IIIiiqqiq8sq8siqi")  # of a plain record, up to its body
_HEAD_BYTES = _HEAD.size
_ODD = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK | WRAPPED_BATCH
_OWN_CRC = CRC_NAME + b"\x01"

M = TypeVar("M", bound=StoredMessage)


class PulledMessage(StoredMessage):
    """Its properties are decoded when somebody asks for them: many handlers read the body alone."""

    __slots__ = ("_raw",)
    _raw: bytes

    def __getattr__(self, name: str) -> Any:
        """Decode the properties; called where the slot is still empty."""
        if name != "properties":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self.properties = found = decode_properties(self._raw)
        return found


class UnreadableMessage(StoredMessage):
    """A record of which only the frame could be read: its numbers are there, `body` is as stored, `fault` says why.

    `is_curable`: a package is missing here. This client, or another one, can read the record once it is installed.
    `refusals`: how often a broker did not take it back.
    """

    __slots__ = ("fault", "is_curable", "refusals")
    fault: str
    is_curable: bool
    refusals: int

    @property
    def next_offset(self) -> int:
        """Return the queue offset behind the message: an inner batch takes as many as it has messages."""
        if self.sys_flag & WRAPPED_BATCH != WRAPPED_BATCH:
            return self.queue_offset + 1
        return self.queue_offset + (whole_number(self.properties.get(Property.INNER_NUM), 1, MOST_INNER_MESSAGES) or 1)


class ReadMessages(NamedTuple):
    """What `read_messages` made of an answer.

    `is_whole`: all of it was read. If it was not, `broken` says why the bytes behind the last message are no records;
    without a text they are some, and were left aside because the budget is used up.
    """

    messages: list[StoredMessage]
    unreadable: list[UnreadableMessage]  # of these, in the same order
    is_whole: bool = True
    broken: str = ""

    @property
    def behind(self) -> int:
        """Return the queue offset behind the last message; -1 if there is none."""
        if not self.messages:
            return -1
        last = self.messages[-1]
        return last.next_offset if isinstance(last, UnreadableMessage) else last.queue_offset + 1


def read_messages(
    body: bytes | memoryview, *, plain_limit: int = DEFAULT_PLAIN_LIMIT, budget: int | None = None
) -> ReadMessages:
    """Read record by record. One that cannot be read becomes an `UnreadableMessage` in its place; nothing is raised.

    Compressed records are decompressed one after another while all bodies of this answer take less than `budget`
    bytes; the first record is always read.
    """
    raw = bytes(body)  # what is bytes already is not copied
    messages: list[StoredMessage] = []
    unreadable: list[UnreadableMessage] = []
    at = _read_plain(raw, 0, messages)
    held = counted = 0
    while at < len(raw):
        if budget is not None:
            held += sum(len(message.body) for message in messages[counted:])
            counted = len(messages)
            if counted and held >= budget:
                return ReadMessages(messages, unreadable, is_whole=False)
        try:
            end = at + framed_bytes(raw, at)
        except RecordError as fault:
            return ReadMessages(messages, unreadable, is_whole=False, broken=str(fault))
        found = read_record(raw[at:end], plain_limit=plain_limit)
        unreadable += [each for each in found if isinstance(each, UnreadableMessage)]
        messages += found
        at = _read_plain(raw, end, messages)
    return ReadMessages(messages, unreadable)


def read_record(
    raw: bytes, *, plain_limit: int = DEFAULT_PLAIN_LIMIT, verify: bool = True, with_body: bool = True
) -> list[StoredMessage]:
    """Return the messages of one framed record, or one `UnreadableMessage`; a body that is not wanted stays packed."""
    try:
        record = decode_record(raw, verify=verify)
        if not with_body and record.sys_flag & WRAPPED_BATCH != WRAPPED_BATCH:
            return [_message(StoredMessage, record, b"", record.flag, record.properties, 0)]
        return unwrap(record, plain_limit)
    except (ProtocolError, CompressionMissing) as fault:
        return [_unreadable(decode_remains(raw), fault)]


def _unreadable(record: Record, fault: PyroError) -> UnreadableMessage:
    made = _message(UnreadableMessage, record, record.body, record.flag, record.properties, 0)
    made.fault, made.is_curable = str(fault), isinstance(fault, CompressionMissing)
    made.refusals = 0
    return made


def unframed(topic: str, queue_id: int, queue_offset: int, fault: str) -> UnreadableMessage:
    """Stand for a record whose very frame is broken: neither its position nor its id is known."""
    return _unreadable(
        Record(topic=topic, queue_id=queue_id, body=b"", queue_offset=queue_offset, physical_offset=-1),
        RecordError(fault),
    )


def _read_plain(raw: bytes, at: int, messages: list[StoredMessage]) -> int:
    """Add the plain records that begin at `at`; return where the first one begins that is not plain, or the end.

    Every consumed message passes here, hence no calls and no objects in between.
    """
    view, available, unpack, new = memoryview(raw), len(raw), _HEAD.unpack_from, PulledMessage.__new__
    topic, topic_bytes = "", b""
    while available - at >= FIXED_BYTES:
        message = new(PulledMessage)
        (
            size,
            magic,
            message.body_crc,
            message.queue_id,
            message.flag,
            message.queue_offset,
            message.physical_offset,
            sys_flag,
            message.born_timestamp,
            message.born_host,
            message.store_timestamp,
            message.store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            body_length,
        ) = unpack(raw, at)
        end, body_at = at + size, at + _HEAD_BYTES
        body_end = body_at + body_length
        if magic != MAGIC_V1 or sys_flag & _ODD or body_length < 0 or end > available or body_end + 3 > end:
            return at
        topic_end = body_end + 1 + raw[body_end]
        properties_at = topic_end + 2
        if (
            properties_at > end
            or raw[topic_end] > 127
            or end - properties_at != raw[topic_end] << 8 | raw[topic_end + 1]
        ):
            return at
        message.body = body = raw[body_at:body_end]
        own_crc_at = end - CRC_PROPERTY_BYTES
        if raw.startswith(_OWN_CRC, own_crc_at):  # the record's own covers the body too
            if b"%010d" % (crc32(view[at:own_crc_at]) & CRC_BITS) != raw[end - 2 : end - 12 : -1]:
                return at
        elif crc32(body) & CRC_BITS != message.body_crc:
            return at
        if raw[body_end + 1 : topic_end] != topic_bytes:
            topic_bytes = raw[body_end + 1 : topic_end]
            try:
                topic = topic_bytes.decode()
            except UnicodeDecodeError:
                return at
        message.topic, message.store_size, message.sys_flag = topic, size, sys_flag
        message._raw = raw[properties_at:end]
        messages.append(message)
        at = end
    return at


def unwrap(record: Record, plain_limit: int = DEFAULT_PLAIN_LIMIT) -> list[StoredMessage]:
    kind = compression_of(record.sys_flag)
    plain = record.body if kind is None else decompress(record.body, kind, plain_limit)
    if record.sys_flag & WRAPPED_BATCH != WRAPPED_BATCH:
        return [_message(StoredMessage, record, plain, record.flag, record.properties, 0)]
    return [
        _message(StoredMessage, record, body, flag, properties, place)
        for place, (body, flag, properties) in enumerate(decode_batch(plain))
    ]


def _message(kind: type[M], record: Record, body: bytes, flag: int, properties: bytes, place: int) -> M:
    return kind(
        topic=record.topic,
        body=body,
        flag=flag,
        properties=decode_properties(properties),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset + place,
        physical_offset=record.physical_offset,
        store_size=record.size,
        sys_flag=record.sys_flag,
        body_crc=record.body_crc,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_timestamp=record.store_timestamp,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )
