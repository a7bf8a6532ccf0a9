"""The body of REGISTER_BROKER: JSON, or deflated binary parts where the broker has `compressedRegister`.

| length 4 | DataVersion JSON | topics 4 | (length 4 | `topic read write perm filter attributes`)* |
| length 4 | filter servers JSON | from 5.0 on: mappings 4 | (length 4 | TopicQueueMappingInfo JSON)* |
"""

from __future__ import annotations

import struct
import zlib

import msgspec

from ...errors import Malformed
from ...model.client_info import Version
from ..json import ANSWER_LIMITS, Dialect
from .body import Body, always_new, decode_body, encode_body
from .topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigSerializeWrapper,
    TopicQueueMappingInfo,
)
from .version import DataVersion

MAX_INFLATED_BYTES = 64 << 20  # 16 MiB of deflate could stand for 16 GiB

_LENGTH = struct.Struct(">i")


class RegisterBrokerBody(Body, kw_only=True):
    filter_server_list: list[str] = always_new(list)
    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = always_new(
        TopicConfigAndMappingSerializeWrapper
    )


def decode_registration(
    data: bytes, version: int, compressed: bool = False, max_inflated: int = MAX_INFLATED_BYTES
) -> RegisterBrokerBody:
    """The body as the broker's `version` says it must be read. No body: a registration that changes no topic."""
    if not data:
        return RegisterBrokerBody()
    if version < Version.V3_0_11:  # sends the bare table; a whole RegisterBrokerBody here reads as one without topics
        table = decode_body(TopicConfigSerializeWrapper, data, ANSWER_LIMITS)
        wrapper = TopicConfigAndMappingSerializeWrapper(
            data_version=table.data_version, topic_config_table=table.topic_config_table
        )
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    # Brokers of 5.x say compressed=false even when they compress, so the first byte decides: 0x78 starts a zlib
    # stream and no JSON.
    if compressed or data[0] == 0x78:
        return _Parts(_inflate(data, max_inflated)).registration(version)
    return decode_body(RegisterBrokerBody, data, ANSWER_LIMITS)


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
    """`bodyCrc32` of the header. 0 there means that it is not to be checked."""
    return zlib.crc32(data) & 0x7FFF_FFFF


def _inflate(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, limit)
    except zlib.error as fault:
        raise Malformed(f"the registration is no deflate stream: {fault}") from None
    if inflater.unconsumed_tail:
        raise Malformed(f"the registration inflates to more than {limit} bytes")
    if not inflater.eof:
        raise Malformed("the registration's deflate stream is cut off")
    return plain


class _Parts:
    """Reads length-prefixed parts one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def registration(self, version: int) -> RegisterBrokerBody:
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=decode_body(DataVersion, self._piece()))
        for _ in range(self._number()):
            topic = _topic(self._piece().decode("utf-8", "replace"))
            wrapper.topic_config_table[topic.topic_name] = topic
        filters = decode_body(list[str], self._piece())
        if version >= Version.V5_0_0:
            for _ in range(self._number()):
                info = decode_body(TopicQueueMappingInfo, self._piece())
                wrapper.topic_queue_mapping_info_map[info.topic] = info
        return RegisterBrokerBody(filter_server_list=filters, topic_config_serialize_wrapper=wrapper)

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
        return self._data[self._at - length : self._at]


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
