"""The message record: what the commit log holds and what pull responses carry.

| total 4 | magic 4 | body CRC 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 | sysFlag 4 | born time 8 |
| born host 8/20 | store time 8 | store host 8/20 | reconsume times 4 | prepared transaction offset 8 | body length 4 |
| body | topic length 1 (V1) or 2 (V2) | topic | properties length 2 | properties |

`Record` keeps hosts and properties as the bytes that they are, so that encoding what was decoded gives the same bytes.
`messages.py` makes `StoredMessage`s of records.
"""

from __future__ import annotations

import struct
from zlib import crc32

import msgspec

from ..errors import ProtocolError
from ..model.message import Property, SysFlag
from .properties import MAX_PROPERTIES_BYTES, find_property

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194  # the rest of a commit-log file holds nothing
BLANK_BYTES = 8  # size of the rest and MAGIC_BLANK
MAX_TOPIC_V1 = 127
CRC_BITS = 0x7FFFFFFF

HEAD = struct.Struct(">IIIiiqqiq")  # up to the born time
MIDDLE = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length
LONG = struct.Struct(">q")
SHORT = struct.Struct(">H")
BLANK = struct.Struct(">II")

FIXED_BYTES = 91  # IPv4 hosts, V1: all but body, topic and properties
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
    """The record's bytes. Body CRC, total size and the host bits of sysFlag follow from the other fields.

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
    """sysFlag whose two IPv6 bits say what the hosts are."""
    bits = SysFlag.BORN_HOST_V6 * (len(born_host) > 8) | SysFlag.STORE_HOST_V6 * (len(store_host) > 8)
    return sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6) | bits


def decode_record(raw: bytes | memoryview, at: int = 0, *, verify: bool = True) -> Record:
    """The record that starts at `at`; `size` says how many bytes it took. RecordError says what is wrong.

    `verify` checks the body CRC and, where the record has one, the whole-record CRC. Layout is always checked.
    """
    view = memoryview(raw)
    available = len(view) - at
    if available < FIXED_BYTES:
        raise RecordError(f"{available} bytes are left, a record has at least {FIXED_BYTES}")
    size, magic, body_crc, queue_id, flag, queue_offset, position, sys_flag, born = HEAD.unpack_from(view, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"magic {magic:#010x} is not that of a record")
    if not FIXED_BYTES <= size <= available:
        raise RecordError(f"the record claims {size} bytes, {available} are there")
    end = at + size
    here = at + HEAD.size
    born_host, here = _bytes(view, here, 20 if sys_flag & SysFlag.BORN_HOST_V6 else 8, end, "born host")
    (stored,) = LONG.unpack_from(view, here)
    store_host, here = _bytes(view, here + 8, 20 if sys_flag & SysFlag.STORE_HOST_V6 else 8, end, "store host")
    if here + MIDDLE.size > end:
        raise RecordError("the record ends before its body length")
    reconsume_times, prepared, body_length = MIDDLE.unpack_from(view, here)
    body, here = _bytes(view, here + MIDDLE.size, body_length, end, "body")
    topic_width = 2 if magic == MAGIC_V2 else 1
    topic_length, here = _bytes(view, here, topic_width, end, "topic length")
    topic, here = _bytes(view, here, int.from_bytes(topic_length, "big"), end, "topic")
    length, here = _bytes(view, here, 2, end, "properties length")
    properties, here = _bytes(view, here, int.from_bytes(length, "big", signed=True), end, "properties")
    if here != end:
        raise RecordError(f"the record's parts take {here - at} bytes, it claims {size}")
    if verify:
        check_crc(view[at:end], body, body_crc, properties)
    return Record(
        topic=_text(topic),
        queue_id=queue_id,
        body=body,
        properties=properties,
        flag=flag,
        sys_flag=sys_flag,
        queue_offset=queue_offset,
        physical_offset=position,
        born_timestamp=born,
        born_host=born_host,
        store_timestamp=stored,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        body_crc=body_crc,
        magic=magic,
        size=size,
    )


def _bytes(view: memoryview, at: int, length: int, end: int, what: str) -> tuple[bytes, int]:
    if length < 0 or at + length > end:
        raise RecordError(f"the {what} needs {length} bytes, {end - at} are left of the record")
    return bytes(view[at : at + length]), at + length


def _text(topic: bytes) -> str:
    try:
        return topic.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise RecordError(f"the topic is not UTF-8: {fault}") from None


def check_crc(record: memoryview, body: bytes | memoryview, body_crc: int, properties: bytes) -> None:
    """RecordError if the body or, where the record carries its own CRC, anything in it is not as it was written.

    Every value is legal, 0 too.
    """
    actual = crc32(body) & CRC_BITS
    if body_crc != actual:
        raise RecordError(f"body CRC is {actual:#010x}, the record says {body_crc:#010x}")
    expected = whole_record_crc(properties)
    if expected is not None and crc32(record[:-CRC_PROPERTY_BYTES]) & CRC_BITS != expected:
        raise RecordError("the whole-record CRC (property __CRC32#) does not fit")


# -- the whole-record CRC property --------------------------------------------------------------------------------


def with_room_for_crc(properties: bytes) -> bytes:
    """Properties without an older CRC (a record that is put again) and with an end mark, ready for the new one."""
    if CRC_NAME in properties and find_property(properties, CRC_NAME) is not None:
        pairs = (pair for pair in properties.split(b"\x02") if pair and not pair.startswith(CRC_NAME + b"\x01"))
        return b"".join(pair + b"\x02" for pair in pairs)
    return properties if not properties or properties.endswith(b"\x02") else properties + b"\x02"


def crc_property(crc: int) -> bytes:
    """Ten decimal digits, least significant first: the value covers the record up to here."""
    return CRC_NAME + b"\x01" + (b"%010d" % (crc & CRC_BITS))[::-1] + b"\x02"


def whole_record_crc(properties: bytes) -> int | None:
    """The value of a CRC property that stands where a writer puts it, at the very end; None without one."""
    tail = properties[-CRC_PROPERTY_BYTES:]
    if len(tail) < CRC_PROPERTY_BYTES or not tail.startswith(CRC_NAME + b"\x01") or not tail.endswith(b"\x02"):
        return None
    digits = tail[len(CRC_NAME) + 1 : -1]
    return int(digits[::-1]) if digits.isdigit() else None
