"""Messages between the two worlds: protobuf to a message's properties, a stored record to protobuf. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ...errors import PyroError
from ...model.ids import host_text, offset_message_id
from ...model.message import KEY_SEPARATOR, Property, SysFlag
from ...model.names import DLQ_PREFIX, RETRY_PREFIX
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.compression import compression_of, decompress
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Encoding, MessageType
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from .limits import RESERVED

_GZIP = b"\x1f\x8b"
_TIMERS = (Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)
NO_TYPE = "NORMAL"  # what a topic without the attribute takes
MIXED, UNSPECIFIED = "MIXED", "UNSPECIFIED"
SINGLE_TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE")


# --- to a broker -----------------------------------------------------------------------------------------------------


def properties_of(message: v2.Message, remote: str) -> dict[str, str]:
    """Return the properties that a checked message is stored with. `remote`: the address of who sends it."""
    system = message.system_properties
    found = dict(message.user_properties)
    if system.tag:
        found[Property.TAGS] = system.tag
    keys = [key for key in system.keys if key]
    if keys:
        found[Property.KEYS] = KEY_SEPARATOR.join(keys)
    found[Property.UNIQ_KEY] = system.message_id
    if system.message_type == MessageType.TRANSACTION:
        found[Property.TRAN_MSG] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            found[Property.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)
    if system.HasField("delivery_timestamp"):
        found[Property.TIMER_DELIVER_MS] = str(system.delivery_timestamp.ToMilliseconds())
    if system.HasField("priority"):
        found[Property.PRIORITY] = str(system.priority)
    found[Property.RECONSUME_TIME] = str(system.delivery_attempt)
    found[Property.PGROUP] = message.topic.name
    own = {
        Property.SHARDING_KEY: system.message_group,
        Property.LITE_TOPIC: system.lite_topic,
        Property.TRACE_CONTEXT: system.trace_context,
        Property.BORN_HOST: system.born_host.strip() or remote,
    }
    found |= {name: text for name, text in own.items() if text}
    born_ms = system.born_timestamp.ToMilliseconds()
    if born_ms:
        found[Property.BORN_TIMESTAMP] = str(born_ms)
    return {name: value for name, value in found.items() if value}


def system_flag(message: v2.Message) -> int:
    system = message.system_properties
    flag = SysFlag.COMPRESSED if system.body_encoding == Encoding.GZIP else 0
    return flag | (SysFlag.TRANSACTION_PREPARED if system.message_type == MessageType.TRANSACTION else 0)


def kind_of(properties: Mapping[str, str]) -> str:
    """Return the type of a message by its properties, in the order of Java's proxy."""
    if properties.get(Property.TRAN_MSG, "").lower() == "true":
        return "TRANSACTION"
    if Property.DELAY in properties or any(name in properties for name in _TIMERS):
        return "DELAY"
    if Property.SHARDING_KEY in properties:
        return "FIFO"
    if Property.PRIORITY in properties:
        return "PRIORITY"
    return "LITE" if Property.LITE_TOPIC in properties else "NORMAL"


def accepted_types(topic_type: str) -> list[MessageType]:
    """Return what a route says of a topic with this `message.type`."""
    if topic_type == MIXED:
        return [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]
    return [MessageType[topic_type] if topic_type in SINGLE_TYPES else MessageType.MESSAGE_TYPE_UNSPECIFIED]


# --- to a client -----------------------------------------------------------------------------------------------------


def message_of(record: Record, now_ms: int, receipt: str = "", invisible_ms: int = 0) -> v2.Message:
    """Return a stored record as clients get it. Without a receipt: an orphan, or a message to be tried."""
    properties = decode_properties(record.properties)
    body, encoding = plain_body(record)
    made = v2.Message(topic=resource(record.topic), body=body)
    system = made.system_properties
    made.user_properties.update({name: value for name, value in properties.items() if name not in RESERVED})
    if (tag := properties.get(Property.TAGS)) is not None:
        system.tag = tag
    if (keys := properties.get(Property.KEYS)) is not None:
        system.keys.extend(key for key in keys.split(KEY_SEPARATOR) if key)
    system.message_id = properties.get(Property.UNIQ_KEY) or offset_message_id(
        record.store_host, record.physical_offset
    )
    system.body_digest.type = v2.DigestType.MD5
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = encoding
    system.message_type = MessageType[kind_of(properties)]
    system.born_timestamp.FromMilliseconds(record.born_timestamp)
    system.born_host = properties.get(Property.BORN_HOST, "").strip() or host_text(record.born_host).rpartition(":")[0]
    system.store_timestamp.FromMilliseconds(record.store_timestamp)
    system.store_host = host_text(record.store_host)
    system.queue_id, system.queue_offset = record.queue_id, record.queue_offset
    system.delivery_attempt = record.reconsume_times + 1
    if receipt:
        system.receipt_handle = receipt
    if invisible_ms:
        system.invisible_duration.FromMilliseconds(invisible_ms)
    _add_optional(system, properties, now_ms)
    return made


def _add_optional(system: v2.SystemProperties, properties: Mapping[str, str], now_ms: int) -> None:
    delay_s = whole_number(properties.get(Property.TIMER_DELAY_SEC), high=LONG_MAX // 1000)
    due_ms = whole_number(properties.get(Property.TIMER_DELIVER_MS))
    if delay_s is not None:
        due_ms = now_ms + delay_s * 1000
    if due_ms is not None and due_ms < 253_402_300_800_000:  # the year 10000, where protobuf's time ends
        system.delivery_timestamp.FromMilliseconds(due_ms)
    priority = whole_number(properties.get(Property.PRIORITY), high=INT_MAX)
    if priority is not None:
        system.priority = priority
    if (group := properties.get(Property.SHARDING_KEY)) is not None:
        system.message_group = group
    if (lite := properties.get(Property.LITE_TOPIC)) is not None:
        system.lite_topic = lite
    if (trace := properties.get(Property.TRACE_CONTEXT)) is not None:
        system.trace_context = trace
    topic, origin = properties.get(Property.DLQ_ORIGIN_TOPIC), properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)
    if topic is not None and origin is not None:
        system.dead_letter_queue.topic, system.dead_letter_queue.message_id = topic, origin


def plain_body(record: Record) -> tuple[bytes, Encoding]:
    """Return the body as every client can read it: gzip as it is, all other compression undone."""
    body = bytes(record.body)
    if not record.sys_flag & SysFlag.COMPRESSED:
        return body, Encoding.IDENTITY
    if body.startswith(_GZIP):
        return body, Encoding.GZIP
    try:
        kind = compression_of(record.sys_flag)
        return (body, Encoding.IDENTITY) if kind is None else (decompress(body, kind), Encoding.IDENTITY)
    except PyroError:  # damaged, or a package is missing here: the client says so of this message alone
        return body, Encoding.GZIP


def resource(name: str) -> v2.Resource:
    """Return a topic or group as clients name it: what stands before a `%` is a namespace of theirs."""
    prefix = next((one for one in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(one)), "")
    space, mark, rest = name[len(prefix) :].partition("%")
    return v2.Resource(resource_namespace=space, name=prefix + rest) if mark else v2.Resource(name=name)
