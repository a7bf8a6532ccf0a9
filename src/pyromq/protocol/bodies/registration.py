"""The body of REGISTER_BROKER: JSON, or deflated binary parts where the broker has `compressedRegister`.

| length 4 | DataVersion JSON | topics 4 | (length 4 | `topic read write perm filter attributes`)* |
| length 4 | filter servers JSON | from 5.0 on: mappings 4 | (length 4 | TopicQueueMappingInfo JSON)* |
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from ...errors import Malformed
from ...model.client_info import Version
from ..json import Dialect, JsonLimits
from .body import Body, DataVersion, always, always_new, decode_body, encode_body
from .topics import TopicConfig, TopicConfigAndMappingSerializeWrapper, TopicQueueMappingDetail, TopicQueueMappingInfo

MAX_INFLATED_BYTES = 32 << 20  # 16 MiB of deflate could stand for 16 GiB

LIMITS = JsonLimits(  # of the JSON form: a broker of 100,000 topics, and of 10,000 if one of them is static
    bytes=64 << 20, values=2_000_000, odd_bytes=4 << 20, odd_marks=200_000, quoted_keys=20_000
)
T = TypeVar("T")

_DEFLATED_BYTES = 64 << 10  # that one step takes,
_INFLATED_BYTES = 256 << 10  # and that it makes of them at most
_LENGTH = struct.Struct(">i")
_NULL = msgspec.Raw(b"null")


class RegisterBrokerBody(Body, kw_only=True):
    filter_server_list: list[str] = always_new(list)
    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = always_new(
        TopicConfigAndMappingSerializeWrapper
    )


class _RawTable(Body, kw_only=True):
    """The topics of a body as texts: finding where each ends is much cheaper than making something of it."""

    data_version: DataVersion = always_new(DataVersion)
    mapping_data_version: DataVersion = always_new(DataVersion)
    topic_config_table: dict[str, msgspec.Raw] = always_new(dict)
    topic_queue_mapping_detail_map: dict[str, msgspec.Raw] = always_new(dict)
    topic_queue_mapping_info_map: dict[str, msgspec.Raw] = always_new(dict)


class _RawBody(Body, kw_only=True):
    filter_server_list: msgspec.Raw = always(msgspec.Raw(b"[]"))
    topic_config_serialize_wrapper: _RawTable = always_new(_RawTable)


def _decode_each(kind: type[T], texts: dict[str, msgspec.Raw], into: dict[str, T]) -> Iterator[None]:
    for name, text in texts.items():
        if text != _NULL:
            into[name] = decode_body(kind, memoryview(text))
        yield


class RegistrationReader(msgspec.Struct):
    """Reads a body topic by topic, so that whoever serves others too can let them in between.

    `body` is whole once `read_slices` has come to its end; Malformed says what is wrong. No body: no topic changes.
    """

    data: bytes
    version: int  # of the broker: it says how this must be read
    compressed: bool = False
    max_inflated: int = MAX_INFLATED_BYTES
    body: RegisterBrokerBody = msgspec.field(default_factory=RegisterBrokerBody)

    def read_slices(self) -> Iterator[None]:
        data = self.data
        if not data:
            return
        if self.version < Version.V3_0_11:  # sends the bare table; a whole body here reads as one without topics
            yield from self._table(decode_body(_RawTable, data, LIMITS, "RegisterBrokerBody"))
        # Brokers of 5.x say compressed=false even when they compress, so the first byte decides: 0x78 starts a zlib
        # stream and no JSON.
        elif self.compressed or data[0] == 0x78:
            plain = bytearray()
            for part in _inflated(data, self.max_inflated):
                plain += part
                yield
            yield from _Parts(plain).read_slices(self.body, self.version)
        else:
            raw = decode_body(_RawBody, data, LIMITS, "RegisterBrokerBody")
            self.body.filter_server_list = decode_body(list[str], raw.filter_server_list)
            yield from self._table(raw.topic_config_serialize_wrapper)
            yield from self._mappings(raw.topic_config_serialize_wrapper)

    def _table(self, raw: _RawTable) -> Iterator[None]:
        wrapper = self.body.topic_config_serialize_wrapper
        wrapper.data_version = raw.data_version
        yield from _decode_each(TopicConfig, raw.topic_config_table, wrapper.topic_config_table)

    def _mappings(self, raw: _RawTable) -> Iterator[None]:
        wrapper = self.body.topic_config_serialize_wrapper
        wrapper.mapping_data_version = raw.mapping_data_version
        infos, details = raw.topic_queue_mapping_info_map, raw.topic_queue_mapping_detail_map
        yield from _decode_each(TopicQueueMappingInfo, infos, wrapper.topic_queue_mapping_info_map)
        yield from _decode_each(TopicQueueMappingDetail, details, wrapper.topic_queue_mapping_detail_map)


def encode_registration(body: RegisterBrokerBody, compressed: bool = False) -> bytes:
    if not compressed:
        return encode_body(body, Dialect.JAVA)
    wrapper = body.topic_config_serialize_wrapper
    topics = [_topic_text(topic).encode() for topic in wrapper.topic_config_table.values()]
    mappings = [encode_body(info, Dialect.JAVA) for info in wrapper.topic_queue_mapping_info_map.values()]
    pieces = [_piece(encode_body(wrapper.data_version)), _LENGTH.pack(len(topics)), *map(_piece, topics)]
    pieces += [_piece(encode_body(body.filter_server_list)), _LENGTH.pack(len(mappings)), *map(_piece, mappings)]
    return zlib.compress(b"".join(pieces), 9)


def body_crc(data: bytes) -> int:
    """Return `bodyCrc32` of the header. 0 there means that it is not to be checked."""
    return zlib.crc32(data) & 0x7FFF_FFFF


def _inflated(data: bytes, limit: int) -> Iterator[bytes]:
    """Yield what the stream holds, in parts of a size that one step may take."""
    inflater = zlib.decompressobj()
    length = 0
    try:
        for at in range(0, len(data), _DEFLATED_BYTES):
            rest = data[at : at + _DEFLATED_BYTES]
            while rest:
                part = inflater.decompress(rest, _INFLATED_BYTES)
                length += len(part)
                if length > limit:
                    raise Malformed(f"the registration inflates to more than {limit} bytes")
                yield part
                rest = inflater.unconsumed_tail
    except zlib.error as fault:
        raise Malformed(f"the registration is no deflate stream: {fault}") from None
    if not inflater.eof:
        raise Malformed("the registration's deflate stream is cut off")


class _Parts:
    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._at = 0

    def read_slices(self, body: RegisterBrokerBody, version: int) -> Iterator[None]:
        wrapper = body.topic_config_serialize_wrapper
        wrapper.data_version = decode_body(DataVersion, self._piece())
        for _ in range(self._number()):
            topic = _topic(self._piece().decode("utf-8", "replace"))
            wrapper.topic_config_table[topic.topic_name] = topic
            yield
        body.filter_server_list = decode_body(list[str], self._piece())
        if version >= Version.V5_0_0:
            for _ in range(self._number()):
                info = decode_body(TopicQueueMappingInfo, self._piece())
                wrapper.topic_queue_mapping_info_map[info.topic] = info
                yield

    def _number(self) -> int:
        if self._at + _LENGTH.size > len(self._data):
            raise Malformed(f"the registration ends at byte {self._at} where a length was expected")
        number: int = _LENGTH.unpack_from(self._data, self._at)[0]
        self._at += _LENGTH.size
        return number

    def _piece(self) -> bytes:
        length = self._number()
        if not 0 <= length <= len(self._data) - self._at:
            raise Malformed(f"the registration has a part of {length} bytes at {self._at} of {len(self._data)}")
        self._at += length
        return bytes(self._data[self._at - length : self._at])


def _topic(text: str) -> TopicConfig:
    parts = text.split(" ", 5)
    if len(parts) < 5:
        raise Malformed(f"no `topic read write perm filter attributes`: {text[:200]!r}")
    names = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    try:
        topic = msgspec.convert(dict(zip(names, parts, strict=False)), TopicConfig, strict=False)
    except msgspec.ValidationError as fault:
        raise Malformed(f"no `topic read write perm filter attributes`: {text[:200]!r}: {fault}") from None
    if len(parts) > 5 and parts[5]:
        topic.attributes = decode_body(dict[str, str], parts[5].encode())
    return topic


def _topic_text(topic: TopicConfig) -> str:
    attributes = encode_body(topic.attributes).decode()
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type} {attributes}"


def _piece(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data
