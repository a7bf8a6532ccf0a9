"""The message record: what the commit log holds and what pull responses carry.

| total 4 | magic 4 | body CRC 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 | sysFlag 4 | born time 8 |
| born host 8/20 | store time 8 | store host 8/20 | reconsume times 4 | prepared transaction offset 8 | body length 4 |
| body | topic length 1 (V1) or 2 (V2) | topic | properties length 2 | properties |

`Record` keeps hosts and properties as the bytes that they are, so that encoding what was decoded gives the same bytes.
`messages.py` makes `StoredMessage`s of records.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

import msgspec

from ..errors import ProtocolError
from ..model.message import Property, SysFlag
from .properties import MAX_PROPERTIES_BYTES, find_property

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194  # the rest of a commit-log file holds nothing
BLANK_BYTES = 8  # size of the rest and MAGIC_BLANK
_MAGICS = (MAGIC_V1, MAGIC_V2)
_BORN_V6, _STORE_V6 = int(SysFlag.BORN_HOST_V6), int(SysFlag.STORE_HOST_V6)  # plain numbers: a flag's `&` is slow
_ANY_V6, _V1_END = _BORN_V6 | _STORE_V6, MAGIC_V1 & 0xFF
MAX_TOPIC_V1 = 127
CRC_BITS = 0x7FFFFFFF

HEAD = struct.Struct(">IIIiiqqiq")  # up to the born time
MIDDLE = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length
INT = struct.Struct(">i")
LONG = struct.Struct(">q")
SHORT = struct.Struct(">H")
BLANK = struct.Struct(">II")

FIXED_BYTES = 91  # IPv4 hosts, V1: all but body, topic and properties
_PAIR_ENDS = (b"", b"\x02")
CRC_NAME = Property.CRC32.encode()
CRC_PROPERTY_BYTES = len(CRC_NAME) + 1 + 10 + 1


class RecordError(ProtocolError):
    """These bytes are not a whole, undamaged record; the text says why."""


class Record(msgspec.Struct, kw_only=True):
    """One record, field by field. `body` is as stored, maybe compressed."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    born_timestamp: int = 0
    born_host: bytes = bytes(8)
    store_timestamp: int = 0
    store_host: bytes = bytes(8)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    magic: int = MAGIC_V1
    size: int = 0  # of the whole record; known once it was decoded


def encode_record(record: Record, *, with_crc: bool = False) -> bytes:
    """Return the record's bytes. Body CRC, total size and the host bits of sysFlag follow from the other fields.

    `with_crc` adds the whole-record CRC property. V2 is written where the topic needs it or the record says so.
    """
    topic, body, born_host, store_host = record.topic.encode(), record.body, record.born_host, record.store_host
    properties = record.properties
    properties_length = len(properties)
    if with_crc:
        properties = with_room_for_crc(properties)
        properties_length = len(properties) + CRC_PROPERTY_BYTES
    if properties_length > MAX_PROPERTIES_BYTES:
        raise ValueError(f"properties take {properties_length} bytes, the limit is {MAX_PROPERTIES_BYTES}")
    magic = MAGIC_V2 if len(topic) > MAX_TOPIC_V1 else record.magic
    size = FIXED_BYTES - 16 + len(born_host) + len(store_host) + len(body) + len(topic) + properties_length
    raw = b"".join(
        (
            HEAD.pack(
                size + (magic == MAGIC_V2),
                magic,
                crc32(body) & CRC_BITS,
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.physical_offset,
                host_bits(record.sys_flag, born_host, store_host),
                record.born_timestamp,
            ),
            born_host,
            LONG.pack(record.store_timestamp),
            store_host,
            MIDDLE.pack(record.reconsume_times, record.prepared_transaction_offset, len(body)),
            body,
            len(topic).to_bytes(2 if magic == MAGIC_V2 else 1, "big"),
            topic,
            SHORT.pack(properties_length),
            properties,
        )
    )
    return raw + crc_property(crc32(raw)) if with_crc else raw


def host_bits(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """Return the sysFlag with its two IPv6 bits as the hosts are."""
    bits = SysFlag.BORN_HOST_V6 * (len(born_host) > 8) | SysFlag.STORE_HOST_V6 * (len(store_host) > 8)
    return sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6) | bits


def property_bytes(raw: bytes) -> bytes:
    """Return the properties of one whole record that is known to be sound."""
    return raw[properties_at(raw) :]


def body_bytes(raw: bytes) -> bytes:
    """Return the body of such a record."""
    flags = raw[39]  # the low byte of sysFlag
    at = 88 + (12 if flags & _BORN_V6 else 0) + (12 if flags & _STORE_V6 else 0)
    return raw[at : at + int(INT.unpack_from(raw, at - 4)[0])]


def properties_at(raw: bytes) -> int:
    """Return where the properties of such a record begin: what a filter asks of each, so no more is read."""
    flags = raw[39]  # the low byte of sysFlag
    if not flags & _ANY_V6 and raw[7] == _V1_END:  # nearly all
        at = 88 + int(INT.unpack_from(raw, 84)[0])
        return at + 3 + raw[at]
    at = 84 + (12 if flags & _BORN_V6 else 0) + (12 if flags & _STORE_V6 else 0)
    at += 4 + int.from_bytes(raw[at : at + 4], "big")  # behind the body
    if raw[7] == MAGIC_V2 & 0xFF:
        return at + 4 + int.from_bytes(raw[at : at + 2], "big")
    return at + 3 + raw[at]


class Layout(NamedTuple):
    """A record's numbers, and where its parts are in the bytes that it was located in."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    store_timestamp: int
    reconsume_times: int
    prepared_transaction_offset: int
    store_host_at: int
    body_at: int
    body_end: int
    topic_at: int
    topic_end: int
    properties_at: int
    end: int


def framed_bytes(raw: bytes | memoryview, at: int = 0) -> int:
    """Return the size that the record at `at` claims, and that is there. RecordError if none begins there."""
    available = len(raw) - at
    if available < FIXED_BYTES:
        raise RecordError(f"{available} bytes are left, a record has at least {FIXED_BYTES}")
    size, magic = BLANK.unpack_from(raw, at)
    if magic not in _MAGICS:
        raise RecordError(f"magic {magic:#010x} is not that of a record")
    if not FIXED_BYTES <= size <= available:
        raise RecordError(f"the record claims {size} bytes, {available} are there")
    return int(size)


def locate(raw: bytes | memoryview, at: int = 0) -> Layout:
    """Find the parts of the record that starts at `at`, and see that they fit into it. RecordError says what does not.

    CRCs are not looked at. The hot readers repeat this walk without calls: `messages._read_plain` for consumers, the
    kernels' scans and the Spark codec for whole files; tests hold them to this one.
    """
    end = at + framed_bytes(raw, at)
    head = HEAD.unpack_from(raw, at)
    magic, sys_flag = head[1], head[7]
    store_time_at = at + HEAD.size + (20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
    middle_at = store_time_at + 8 + (20 if sys_flag & SysFlag.STORE_HOST_V6 else 8)
    body_at = middle_at + MIDDLE.size
    width = 2 if magic == MAGIC_V2 else 1
    if body_at + width + 2 > end:
        raise RecordError("the record ends inside its header")
    (stored,) = LONG.unpack_from(raw, store_time_at)
    reconsume_times, prepared, body_length = MIDDLE.unpack_from(raw, middle_at)
    topic_at = body_at + body_length + width
    if body_length < 0 or topic_at + 2 > end:
        raise RecordError(f"the body needs {body_length} bytes, {end - body_at} are left of the record")
    topic_end = topic_at + int.from_bytes(raw[topic_at - width : topic_at], "big")
    properties_at = topic_end + 2
    length = int.from_bytes(raw[topic_end:properties_at], "big", signed=True)
    if properties_at > end or properties_at + length != end:
        raise RecordError("the lengths of topic and properties do not add up to the record's size")
    places = (store_time_at + 8, body_at, body_at + body_length, topic_at, topic_end, properties_at, end)
    return Layout._make((*head, stored, reconsume_times, prepared, *places))


def decode_record(raw: bytes | memoryview, at: int = 0, *, verify: bool = True) -> Record:
    """Return the record that starts at `at`; `size` says how many bytes it took. RecordError says what is wrong.

    `verify` checks the body CRC and, where the record has one, the whole-record CRC. Layout is always checked.
    """
    view = memoryview(raw)
    found = locate(view, at)
    if verify:
        check_crc(view, at, found)
    try:
        topic = str(view[found.topic_at : found.topic_end], "utf-8")
    except UnicodeDecodeError as fault:
        raise RecordError(f"the topic is not UTF-8: {fault}") from None
    return Record(
        topic=topic,
        queue_id=found.queue_id,
        body=bytes(view[found.body_at : found.body_end]),
        properties=bytes(view[found.properties_at : found.end]),
        flag=found.flag,
        sys_flag=found.sys_flag,
        queue_offset=found.queue_offset,
        physical_offset=found.physical_offset,
        born_timestamp=found.born_timestamp,
        born_host=bytes(view[at + HEAD.size : found.store_host_at - 8]),
        store_timestamp=found.store_timestamp,
        store_host=bytes(view[found.store_host_at : found.body_at - MIDDLE.size]),
        reconsume_times=found.reconsume_times,
        prepared_transaction_offset=found.prepared_transaction_offset,
        body_crc=found.body_crc,
        magic=found.magic,
        size=found.size,
    )


def decode_remains(raw: bytes) -> Record:
    """Return what can be told of a damaged record in its frame: to name it and give it back, never to use it."""
    try:
        return decode_record(raw, verify=False)
    except RecordError:
        numbers = dict(zip(Layout._fields, HEAD.unpack_from(raw), strict=False))
        return Record(topic="", body=b"", **numbers)


def check_crc(view: memoryview, at: int, found: Layout) -> None:
    """Raise RecordError if the body, or anything in a record with a CRC of its own, is not as it was written."""
    tail = found.end - CRC_PROPERTY_BYTES
    expected = whole_record_crc(bytes(view[tail : found.end])) if tail >= found.properties_at else None
    if expected is not None:  # every value is legal, 0 too; it covers the body
        if crc32(view[at:tail]) & CRC_BITS != expected:
            raise RecordError("the whole-record CRC (property __CRC32#) does not fit")
        return
    actual = crc32(view[found.body_at : found.body_end]) & CRC_BITS
    if found.body_crc != actual:
        raise RecordError(f"body CRC is {actual:#010x}, the record says {found.body_crc:#010x}")


# -- the whole-record CRC property --------------------------------------------------------------------------------


def with_room_for_crc(properties: bytes) -> bytes:
    """Return the properties without an older CRC (of a record put again) and with an end mark for the new one."""
    at = properties.find(CRC_NAME)
    if at >= 0:
        tail = len(properties) - CRC_PROPERTY_BYTES
        if at == tail and properties[tail - 1 : tail] in _PAIR_ENDS and whole_record_crc(properties) is not None:
            return properties[:tail]  # where a writer puts it, and nowhere else
        if find_property(properties, CRC_NAME) is not None:
            pairs = (pair for pair in properties.split(b"\x02") if pair and not pair.startswith(CRC_NAME + b"\x01"))
            return b"".join(pair + b"\x02" for pair in pairs)
    return properties if not properties or properties.endswith(b"\x02") else properties + b"\x02"


def crc_property(crc: int) -> bytes:
    """Return ten decimal digits, least significant first: the value covers the record up to here."""
    return CRC_NAME + b"\x01" + (b"%010d" % (crc & CRC_BITS))[::-1] + b"\x02"


def whole_record_crc(properties: bytes) -> int | None:
    """Return the value of a CRC property that stands where a writer puts it, at the very end; None without one."""
    tail = properties[-CRC_PROPERTY_BYTES:]
    if len(tail) < CRC_PROPERTY_BYTES or not tail.startswith(CRC_NAME + b"\x01") or not tail.endswith(b"\x02"):
        return None
    digits = tail[len(CRC_NAME) + 1 : -1]
    return int(digits[::-1]) if digits.isdigit() else None  # ten bytes: `isdigit` of bytes knows ASCII alone
