"""What a message may be, checked in Java's order before anything is asked of a broker. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.message import Property
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ..config import ProxySettings
from ..statuses import Denied
from .names import check_lite_topic, has_control

# Properties that users may neither set nor see. Java's list, and our own of the same kind.
RESERVED = frozenset(
    (
        *("TRACE_ON", "MSG_REGION", "KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID"),
        *("TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "ORIGIN_GROUP"),
        *("TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "UNIQ_KEY", "MAX_RECONSUME_TIMES"),
        *("CONSUME_START_TIME", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "TRAN_PREPARED_QUEUE_OFFSET"),
        *("DUP_INFO", "EXTEND_UNIQ_INFO", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"),
        *("ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "INNER_MULTI_QUEUE_OFFSET"),
        *("TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"),
        *("TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL"),
        *("__BORNHOST", "BORN_TIMESTAMP", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#"),
        *("__LITE_TOPIC", "_SYS_MSG_PRIORITY_"),
        *(Property.SEND_ID, Property.OWN_DUE_MS, Property.OWN_DELAY, Property.OWN_DEAD_MS, Property.OWN_REASON),
    )
)


def check_message(message: v2.Message, settings: ProxySettings, now_ms: int) -> None:
    """Raise Denied for the first rule that the message breaks."""
    _check_body(len(message.body), settings)
    size = _check_properties(message.user_properties, settings)
    system = message.system_properties
    size += _check_tag(system.tag) + sum(_check_key(key) for key in system.keys)
    if size > settings.max_user_property_size:
        raise Denied(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the total size of user property is too large, max is {settings.max_user_property_size}",
        )
    if not system.message_id.strip():
        raise Denied(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if has_control(system.message_id):
        raise Denied(Code.ILLEGAL_MESSAGE_ID, "message id cannot contain control character")
    _check_times(system, settings, now_ms)
    if system.HasField("priority") and system.priority < 0:
        raise Denied(Code.BAD_REQUEST, "The priority must be greater than or equal to 0")
    _check_group(system.message_group, settings)
    if system.lite_topic:
        check_lite_topic(system.lite_topic, settings.max_lite_topic_size)
    if has_control(system.trace_context) or has_control(system.born_host):
        raise Denied(Code.BAD_REQUEST, "trace_context and born_host cannot contain control characters")


def _check_body(size: int, settings: ProxySettings) -> None:
    if not size and settings.enable_message_body_empty_check:
        raise Denied(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if size > settings.max_message_bytes:
        raise Denied(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {settings.max_message_bytes}")


def _check_properties(properties: Mapping[str, str], settings: ProxySettings) -> int:
    """Return how many bytes they take."""
    if len(properties) > settings.user_property_max_num:
        raise Denied(
            Code.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {settings.user_property_max_num}"
        )
    size = 0
    for name, value in properties.items():
        if name in RESERVED:
            raise Denied(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        if has_control(name):
            raise Denied(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property cannot contain control character")
        if has_control(value):
            raise Denied(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the value of property cannot contain control character")
        size += len(name.encode()) + len(value.encode())
    return size


def _check_tag(tag: str) -> int:
    if tag and not tag.strip():
        raise Denied(Code.ILLEGAL_MESSAGE_TAG, "tag cannot be the char sequence of whitespace")
    if "|" in tag:
        raise Denied(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    if has_control(tag):
        raise Denied(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain control character")
    return len(tag.encode())


def _check_key(key: str) -> int:
    if key and not key.strip():
        raise Denied(Code.ILLEGAL_MESSAGE_KEY, "key cannot be the char sequence of whitespace")
    if has_control(key):
        raise Denied(Code.ILLEGAL_MESSAGE_KEY, "key cannot contain control character")
    return len(key.encode())


def _check_times(system: v2.SystemProperties, settings: ProxySettings, now_ms: int) -> None:
    longest_s = settings.max_transaction_recovery_second
    is_transaction = system.message_type == v2.MessageType.TRANSACTION
    if is_transaction and system.orphaned_transaction_recovery_duration.seconds > longest_s:
        raise Denied(Code.BAD_REQUEST, f"the max transaction recovery time of message is too large, max is {longest_s}")
    longest_ms = settings.max_delay_time_mills
    if system.HasField("delivery_timestamp") and system.delivery_timestamp.ToMilliseconds() - now_ms > longest_ms:
        raise Denied(Code.ILLEGAL_DELIVERY_TIME, f"the max delay time of message is too large, max is {longest_ms}")


def _check_group(group: str, settings: ProxySettings) -> None:
    if not group:
        return
    if not group.strip():
        raise Denied(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot be the char sequence of whitespace")
    if len(group.encode()) >= settings.max_message_group_size:
        raise Denied(Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {settings.max_message_group_size}")
    if has_control(group):
        raise Denied(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot contain control character")
