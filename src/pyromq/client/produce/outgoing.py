"""A message on its way out: its properties, its body (compressed where that pays), and the header around it.

Made once per message and used for every attempt, so that a repeated send has the same unique id. No awaits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ...model import names
from ...model.message import KEY_SEPARATOR, Property
from ...protocol.batch import ENTRY_BYTES, BatchEntry, encode_batch
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.compression import DEFAULT_LEVEL, Compression, compress, compressed_flag
from ...protocol.frame import DEFAULT_LIMITS
from ...protocol.headers.send import LONG_NAMES, SendMessageAnswer, SendMessageV2
from ...protocol.properties import properties_text
from ...protocol.requests import RequestCode
from ...protocol.row import Row
from ..arguments import Seconds, check_count, check_kind, check_text, milliseconds
from ..connect.session import AUTO_CREATED_QUEUES
from ..errors import BadMessage, Error
from ..values import JSON, Codec, encode_value

MAX_MESSAGE_BYTES = 4 << 20
COMPRESS_OVER_BYTES = 4096
_FRAME_ROOM = DEFAULT_LIMITS.frame_bytes - (64 << 10)  # for a batch, beside a header of any size that ours have
WRITTEN = (Compression.ZLIB, Compression.LZ4, Compression.ZSTD)  # ZLIB_LEGACY is only read
_LEVELS = {Compression.ZLIB: (-1, 9), Compression.ZSTD: (-(1 << 17), 22)}  # LZ4 has none
_OWN_PROPERTIES = frozenset(
    value for name, value in vars(Property).items() if not name.startswith("_") and isinstance(value, str)
)
_TRIMMED_BY_JAVA = "".join(map(chr, range(0x21)))

_QUEUE_ID, _BROKER, _BORN = LONG_NAMES["queueId"], LONG_NAMES["bname"], LONG_NAMES["bornTimestamp"]
_PROPERTIES, _SYS_FLAG = LONG_NAMES["properties"], LONG_NAMES["sysFlag"]
_RECONSUME_TIMES, _MAX_RECONSUME_TIMES = LONG_NAMES["reconsumeTimes"], LONG_NAMES["maxReconsumeTimes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How bodies leave."""

    compression: Compression | None = Compression.ZLIB
    compress_over_bytes: int = COMPRESS_OVER_BYTES
    level: int = DEFAULT_LEVEL
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        kind = self.compression
        if kind is not None and not isinstance(kind, Compression):
            allowed = ", ".join(f"pyromq.Compression.{each.name}" for each in WRITTEN)
            raise Error(f"compression={kind!r} is no kind of compression", hint=f"Give one of {allowed}, or None")
        check_count("compress_over_bytes", self.compress_over_bytes, least=0, example=COMPRESS_OVER_BYTES)
        check_count("max_message_bytes", self.max_message_bytes, example=MAX_MESSAGE_BYTES)
        check_kind("level", self.level, int, "a whole number", hint=f"Write level={DEFAULT_LEVEL}, or leave it out")
        if kind is not None and kind in _LEVELS:
            least, most = _LEVELS[kind]
            check_count("level", self.level, most, least=least)

    @property
    def max_batch_bytes(self) -> int:
        """The limit of a batch, which fits into a frame too: each message of a batch could have been sent alone."""
        return min(self.max_message_bytes, _FRAME_ROOM)


SendRow = Row[SendMessageV2, bytes, SendMessageAnswer, None]


class Outgoing(msgspec.Struct, kw_only=True):
    """One message, or a batch of them, for one topic. `ids` are the unique ids in it."""

    topic: str
    ids: list[str]
    body: bytes
    properties: str
    sys_flag: int = 0
    code: SendRow = RequestCode.SEND_MESSAGE_V2
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    def name_send(self, identity: str) -> None:
        """Name the send for the brokers' duplicate window; the name is the same for every attempt."""
        self.properties += properties_text({Property.SEND_ID: identity})


class SendHeaders:
    """Header fields of a producer's sends. Most are the same for all messages of a topic, and are encoded once."""

    def __init__(self, producer_group: str) -> None:
        self._group = producer_group
        self._common: dict[tuple[str, bool], dict[str, str]] = {}

    def fields(
        self, message: Outgoing, queue: MessageQueue, now_ms: int, timeout_s: float | None = None
    ) -> dict[str, str]:
        """Return the fields of one attempt. `timeout_s`: how long its answer is waited for, None for a one-way send."""
        kind = (message.topic, message.code == RequestCode.SEND_BATCH_MESSAGE)
        common = self._common.get(kind)
        if common is None:
            common = self._common[kind] = self._encoded(*kind)
        found = common.copy()
        found[_QUEUE_ID] = str(queue.queue_id)
        found[_BROKER] = queue.broker_name
        found[_BORN] = str(now_ms)
        found[_PROPERTIES] = message.properties
        if timeout_s is not None:
            found["timeoutMs"] = str(max(1, int(timeout_s * 1000)))  # the broker drops what nobody waits for any more
        if message.sys_flag:
            found[_SYS_FLAG] = str(message.sys_flag)
        if message.reconsume_times:
            found[_RECONSUME_TIMES] = str(message.reconsume_times)
        if message.max_reconsume_times is not None:
            found[_MAX_RECONSUME_TIMES] = str(message.max_reconsume_times)
        return found

    def _encoded(self, topic: str, is_batch: bool) -> dict[str, str]:
        return SendMessageV2(
            producer_group=self._group,
            topic=topic,
            default_topic=names.AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATED_QUEUES,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            reconsume_times=0,
            unit_mode=False,
            batch=is_batch,
        ).to_fields()


def message_properties(
    unique_id: str,
    *,
    tag: str | None = None,
    keys: Iterable[str] = (),
    props: Mapping[str, str] | None = None,
    order_key: str | None = None,
    delay: Seconds | None = None,
    deliver_at_ms: int | None = None,
    delay_level: int | None = None,
) -> dict[str, str]:
    """Return the properties of a message. BadMessage for what brokers would misread."""
    found: dict[str, str] = {} if props is None else _own_words(props)
    found[Property.UNIQ_KEY] = unique_id
    found[Property.WAIT] = "true"
    if tag:
        check_text("the tag", tag)
        if "||" in tag:
            raise BadMessage(f"no filter can name the tag {tag!r}: || stands between tags", hint="Choose another tag")
        found[Property.TAGS] = tag
    if keys:
        found[Property.KEYS] = _joined(keys)
    if order_key:
        check_text("order_key", order_key)
        found[Property.SHARDING_KEY] = order_key
    if delay is not None or deliver_at_ms is not None or delay_level is not None:
        found |= _wait(delay, deliver_at_ms, delay_level)
    return found


def _wait(delay: Seconds | None, deliver_at_ms: int | None, delay_level: int | None) -> dict[str, str]:
    """Return the property that says when the message is due."""
    ways = {"delay": delay, "deliver_at_ms": deliver_at_ms, "delay_level": delay_level}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise BadMessage(f"{' and '.join(given)} are {len(given)} ways to say when", hint="Give one of them")
    if delay is not None:
        return {Property.TIMER_DELAY_MS: str(milliseconds("delay", delay))}
    if deliver_at_ms is not None:
        hint = "Give milliseconds since 1970"
        check_kind("deliver_at_ms", deliver_at_ms, int, "a whole number", hint=hint, error=BadMessage)
        return {Property.TIMER_DELIVER_MS: str(deliver_at_ms)}
    if type(delay_level) is not int or delay_level < 1:
        hint = "Write delay_level=3: brokers count the entries of their messageDelayLevel from 1 on"
        raise BadMessage(f"delay_level={delay_level!r} is no whole number of 1 or more", hint=hint)
    return {Property.DELAY: str(delay_level)}


def _own_words(props: Mapping[str, str]) -> dict[str, str]:
    check_kind("props", props, Mapping, "a mapping of names to values", error=BadMessage)
    found: dict[str, str] = {}
    for name, value in props.items():
        if name in _OWN_PROPERTIES:
            raise BadMessage(f"property {name!r} is RocketMQ's own", hint="Choose another name, or the argument for it")
        if _is_blank(name):
            raise BadMessage(f"a property of the value {value!r} has no name ({name!r})", hint="Give it one")
        if _is_blank(value):
            raise BadMessage(f"property {name!r} has no value ({value!r})", hint="Brokers drop it: leave it out")
        found[str(name)] = str(value)
    return found


def _is_blank(word: Any) -> bool:
    return word is None or not str(word).strip(_TRIMMED_BY_JAVA)


def _joined(keys: Iterable[str]) -> str:
    check_kind("keys", keys, Iterable, "strings", error=BadMessage)
    words = [keys] if isinstance(keys, str) else list(keys)
    for word in words:
        check_text("a key", word)
        if not word or KEY_SEPARATOR in word:
            raise BadMessage(f"key {word!r} is empty or has a blank in it, which separates keys")
    return KEY_SEPARATOR.join(words)


def pack(topic: str, value: Any, properties: Mapping[str, str], packing: Packing, codec: Codec = JSON) -> Outgoing:
    body = _checked_body(topic, value, packing, codec)
    sys_flag = 0
    if packing.compression is not None and len(body) > packing.compress_over_bytes:
        packed = compress(body, packing.compression, packing.level)
        if len(packed) < len(body):  # what is random already grows, and may not fit any more
            body, sys_flag = packed, compressed_flag(packing.compression)
    return Outgoing(
        topic=topic, ids=[properties[Property.UNIQ_KEY]], body=body, properties=_text(properties), sys_flag=sys_flag
    )


class BatchItem(NamedTuple):
    """One message of a batch to be."""

    unique_id: str
    entry: BatchEntry
    bytes: int  # that it takes in the batch


def pack_item(
    topic: str, value: Any, properties: Mapping[str, str], packing: Packing, codec: Codec = JSON
) -> BatchItem:
    body = _checked_body(topic, value, packing, codec)
    encoded = _text(properties).encode()
    return BatchItem(
        properties[Property.UNIQ_KEY], BatchEntry(body, 0, encoded), ENTRY_BYTES + len(body) + len(encoded)
    )


def pack_batch(topic: str, items: list[BatchItem]) -> Outgoing:
    if len(items) == 1:  # alone it is a message like any other
        (item,) = items
        return Outgoing(
            topic=topic, ids=[item.unique_id], body=item.entry.body, properties=item.entry.properties.decode()
        )
    return Outgoing(
        topic=topic,
        ids=[item.unique_id for item in items],
        body=encode_batch(item.entry for item in items),
        properties=properties_text({Property.WAIT: "true"}),
        code=RequestCode.SEND_BATCH_MESSAGE,
    )


@lru_cache(1024)
def check_sendable(topic: str) -> None:
    """Raise BadMessage for a topic to which nobody can send."""
    if (fault := names.topic_fault(topic)) is not None:
        raise BadMessage(fault, hint="Choose another name")
    if topic in names.NO_SEND_TOPICS:
        raise BadMessage(f"topic {topic!r} is the broker's own: nobody may send to it", hint="Choose another topic")


def _checked_body(topic: str, value: Any, packing: Packing, codec: Codec) -> bytes:
    check_sendable(topic)
    body = encode_value(value, codec)
    if not body:
        raise BadMessage(f"the message for {topic!r} has an empty body", hint="Brokers refuse it: send at least a byte")
    if len(body) > packing.max_message_bytes:
        raise BadMessage(
            f"the message for {topic!r} has {len(body)} bytes, at most {packing.max_message_bytes} are allowed",
            hint="Split it, store the data elsewhere, or raise max_message_bytes here and maxMessageSize of the broker",
        )
    return body


def _text(properties: Mapping[str, str]) -> str:
    try:
        return properties_text(properties)
    except ValueError as fault:
        raise BadMessage(str(fault)) from None
