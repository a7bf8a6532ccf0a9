"""Sending a message, its answer, the end of a transaction, and what else producers and repliers ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Self, cast

import msgspec

from ...errors import Malformed
from ..ints import java_text
from .header import Header, Int32, Int64, RpcHeader, TopicHeader


class MessageHeader(TopicHeader, kw_only=True):
    """What a message has beside its body, whichever way it goes."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None


class SendMessage(MessageHeader, kw_only=True):
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None
    timeout_ms: Int64 | None = None  # ours: how long the client waits for the answer; Java's brokers ignore it


SHORT_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}
LONG_NAMES = {long: short for short, long in SHORT_NAMES.items()}


class SendMessageV2(SendMessage, kw_only=True):
    """310, 320 and 325: the same fields, one letter each on the wire. Handlers see a SendMessage either way."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Read quickly: every send that Python serves passes here. Long names are taken too."""
        try:
            return msgspec.convert(fields, _short_form(), strict=False)  # type: ignore[return-value]
        except msgspec.ValidationError:
            return cls._from_any_names(fields)

    @classmethod
    def _from_any_names(cls, fields: Mapping[str, str]) -> Self:
        try:
            return super().from_fields({SHORT_NAMES.get(name, name): value for name, value in fields.items()})
        except Malformed as fault:
            text = str(fault)
            short = next((s for s, long in SHORT_NAMES.items() if f"`{long}`" in text or f"`$.{long}`" in text), None)
            raise Malformed(f"{text}, sent as `{short}`" if short else text) from None

    def to_fields(self) -> dict[str, str]:
        pairs = ((name, getattr(self, attribute)) for attribute, name in _short_names())
        return {name: value if type(value) is str else java_text(value) for name, value in pairs if value is not None}


@cache
def _short_names() -> list[tuple[str, str]]:
    """Return each field with its name on the wire."""
    fields = msgspec.structs.fields(SendMessageV2)
    return [(each.name, LONG_NAMES.get(each.encode_name, each.encode_name)) for each in fields]


@cache
def _short_form() -> type[SendMessageV2]:
    """Return this struct with the short names as its fields' own: reading it renames nothing."""
    fields = [
        (each.name, each.type, msgspec.field(name=LONG_NAMES.get(long := each.encode_name, long), default=each.default))
        for each in msgspec.structs.fields(SendMessageV2)
    ]
    return cast(type[SendMessageV2], msgspec.defstruct("ShortSend", fields, bases=(SendMessageV2,), kw_only=True))


class SendMessageAnswer(Header, kw_only=True):
    """Of all six send requests. Refusals have only region and trace switch, hence nothing is required here."""

    msg_id: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: bool | None = msgspec.field(default=None, name="TRACE_ON")


class PushReplyMessage(MessageHeader, kw_only=True):
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


class ConsumerSendMsgBack(RpcHeader, kw_only=True):
    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    pyro_reason: str | None = None  # ours: why it failed. Apache's broker reads the fields that it knows, and no others


class RecallMessage(TopicHeader, kw_only=True):
    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageAnswer(Header, kw_only=True):
    """Refusals have only the region."""

    msg_id: str | None = None
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")


class EndTransaction(RpcHeader, kw_only=True):
    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32  # 8 commit, 12 rollback, 0 unknown
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    uncounted: bool | None = None  # ours, with 0: nobody could say, the check does not count; Java's brokers ignore it


class CheckTransactionState(RpcHeader, kw_only=True):
    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(Header, kw_only=True):
    topic: str | None = None
    msg_id: str | None = None
