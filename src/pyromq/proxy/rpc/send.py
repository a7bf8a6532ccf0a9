"""SendMessage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model.codes import ResponseCode
from ...model.ids import parse_offset_message_id
from ...model.names import DLQ_PREFIX, is_retry
from ...protocol.batch import BatchEntry, encode_batch
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.headers.send import SendMessageAnswer, SendMessageV2
from ...protocol.properties import properties_text
from ...protocol.requests import RequestCode
from ...protocol.row import Row
from ..calls import Caller
from ..clients.telemetry import LITE
from ..config import ProxySettings
from ..messages.convert import MIXED, UNSPECIFIED, kind_of, properties_of, system_flag
from ..messages.limits import check_message
from ..queues import WriteQueue
from ..services import Services
from ..statuses import OK, Denied, from_broker, is_misplaced, no_route, refused, status, status_of
from ..transactions import SentHalf

_QUEUES = 4  # of a topic that a send would make, which none does here
_TRANSFER = "__transferflag"
_LATE = {
    ResponseCode.FLUSH_DISK_TIMEOUT: (Code.MASTER_PERSISTENCE_TIMEOUT, "FLUSH_DISK_TIMEOUT"),
    ResponseCode.FLUSH_SLAVE_TIMEOUT: (Code.SLAVE_PERSISTENCE_TIMEOUT, "FLUSH_SLAVE_TIMEOUT"),
    ResponseCode.SLAVE_NOT_AVAILABLE: (Code.HA_NOT_AVAILABLE, "SLAVE_NOT_AVAILABLE"),
}


async def send_message(services: Services, caller: Caller, request: v2.SendMessageRequest) -> v2.SendMessageResponse:
    if not request.messages:
        raise Denied(Code.MESSAGE_CORRUPTED, "no message to send")
    topic = request.messages[0].topic
    services.check_topic(topic.name)
    now = services.clock.now_ms()
    properties: list[dict[str, str]] = []
    for message in request.messages:
        if message.topic != topic:
            raise Denied(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        check_message(message, services.settings, now)
        properties.append(properties_of(message, caller.remote))
    kinds = [kind_of(one) for one in properties]
    await _check_kinds(services, topic.name, kinds, properties)
    if len(properties) > 1 and set(kinds) == {"NORMAL"}:
        entries = await _send_batch(services, caller, request.messages, properties)
    else:
        pairs = zip(request.messages, properties, strict=True)
        entries = [await _send_one(services, caller, message, pairs_of) for message, pairs_of in pairs]
    return _response(entries)


def _response(entries: Sequence[v2.SendResultEntry]) -> v2.SendMessageResponse:
    codes = {entry.status.code for entry in entries}
    code = Code(codes.pop()) if len(codes) == 1 else Code.MULTIPLE_RESULTS
    return v2.SendMessageResponse(status=status(code), entries=entries)


def answer_of(code: int, remark: str) -> v2.SendMessageResponse:
    """Return the answer for one message that a broker answered with another code than success."""
    try:
        late = _late_entry(Command(code=code, remark=remark))
    except Denied as refusal:
        return v2.SendMessageResponse(status=status_of(refusal, "SendMessage"))
    return _response([] if late is None else [late])


def is_checked(topic: str) -> bool:
    """Return whether messages of a topic must be of its type: not those of retry and dead-letter topics."""
    return not is_retry(topic) and not topic.startswith(DLQ_PREFIX)


def takes_kind(settings: ProxySettings, expected: str, kind: str) -> bool:
    """Return whether a topic of the type `expected` takes messages of this kind."""
    if not settings.enable_topic_message_type_check:
        return True
    return expected != UNSPECIFIED and expected in (MIXED, kind)


async def _check_kinds(services: Services, topic: str, kinds: list[str], properties: list[dict[str, str]]) -> None:
    """Refuse messages that are not of the topic's type."""
    if not is_checked(topic) or _TRANSFER in properties[0]:
        return
    if not services.settings.enable_topic_message_type_check:
        return
    expected = await services.backend.topic_type(topic)
    if expected is None:
        raise no_route(topic)
    for kind in kinds:
        if not takes_kind(services.settings, expected, kind):
            raise refused(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {kind}",
            )
    if "LITE" in kinds:
        raise Denied(Code.NOT_IMPLEMENTED, LITE)


async def _send_one(
    services: Services, caller: Caller, message: v2.Message, properties: dict[str, str]
) -> v2.SendResultEntry:
    topic, system = message.topic.name, message.system_properties
    text = properties_text(properties)
    queue, answer = await _placed(services, caller, message, RequestCode.SEND_MESSAGE_V2, text, message.body)
    late = _late_entry(answer)
    if late is not None:
        return late
    sent = SendMessageAnswer.from_fields(answer.fields)
    transaction_id = sent.transaction_id or system.message_id
    if system.message_type == v2.MessageType.TRANSACTION and sent.msg_id is not None:
        position = parse_offset_message_id(sent.msg_id).physical_offset
        half = SentHalf(queue.broker, sent.queue_offset or 0, position, system.message_id, services.clock.now_ms())
        services.transactions.remember(topic, transaction_id, half)
    return v2.SendResultEntry(
        status=OK,
        message_id=system.message_id,
        transaction_id=transaction_id,
        offset=sent.queue_offset or 0,
        recall_handle=sent.recall_handle or "",
    )


async def _send_batch(
    services: Services, caller: Caller, messages: Sequence[v2.Message], properties: list[dict[str, str]]
) -> list[v2.SendResultEntry]:
    """Send plain messages as one batch; each has an entry of its own in the answer."""
    entries = [
        BatchEntry(message.body, 0, properties_text(pairs).encode())
        for message, pairs in zip(messages, properties, strict=True)
    ]
    _, answer = await _placed(services, caller, messages[0], RequestCode.SEND_BATCH_MESSAGE, "", encode_batch(entries))
    late = _late_entry(answer)
    if late is not None:
        return [late for _ in messages]
    first = SendMessageAnswer.from_fields(answer.fields).queue_offset or 0
    return [
        v2.SendResultEntry(
            status=OK,
            message_id=message.system_properties.message_id,
            transaction_id=message.system_properties.message_id,
            offset=first + number,
        )
        for number, message in enumerate(messages)
    ]


async def _placed(
    services: Services, caller: Caller, message: v2.Message, row: Row[Any, Any, Any, Any], properties: str, body: bytes
) -> tuple[WriteQueue, Command]:
    """Send to a queue of the topic, and return the broker's answer.

    Where it says that the topic or the queue is not there, nothing is stored and the route was old: another try has a
    new one, or finds that the topic is no more.
    """
    is_batch = row.code == RequestCode.SEND_BATCH_MESSAGE
    key = "" if is_batch else message.system_properties.message_group
    for is_last in (False, True):
        queue = await services.queues.for_send(message.topic.name, key)
        header = _header(services, message, queue, properties, batch=is_batch)
        answer = await services.ask(caller, queue.broker, row, header, body)
        if is_last or not is_misplaced(answer):
            break
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        raise no_route(message.topic.name)
    return queue, answer


def _header(
    services: Services, message: v2.Message, queue: WriteQueue, properties: str, batch: bool = False
) -> SendMessageV2:
    topic = message.topic.name
    born_ms = message.system_properties.born_timestamp.ToMilliseconds()
    return SendMessageV2(
        producer_group=topic,
        topic=topic,
        default_topic=topic,  # brokers make a missing topic like this one: like none, so that no send makes any
        default_topic_queue_nums=_QUEUES,
        queue_id=queue.queue_id,
        sys_flag=0 if batch else system_flag(message),
        born_timestamp=born_ms if born_ms > 0 else services.clock.now_ms(),
        flag=0,
        properties=properties or None,
        reconsume_times=0,
        batch=batch,
        bname=queue.broker,
    )


def _late_entry(answer: Command) -> v2.SendResultEntry | None:
    """Return the entry of a message that is stored, but not as safely as asked. Denied if it is not stored."""
    if answer.code == ResponseCode.SUCCESS:
        return None
    if answer.code not in _LATE:
        raise from_broker(answer.code, answer.remark)
    code, name = _LATE[ResponseCode(answer.code)]
    return v2.SendResultEntry(status=status(code, f"send message failed, sendStatus={name}"))
