"""PullMessage, UpdateOffset, GetOffset and QueryOffset, which Java's proxy does not serve."""

from __future__ import annotations

from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.wire_text import LONG_MAX
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code, QueryOffsetPolicy
from ...protocol.headers.header import TopicQueue
from ...protocol.headers.offsets import (
    GetMaxOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from ...protocol.headers.pull import PullMessage, PullMessageAnswer
from ...protocol.properties import find_property
from ...protocol.record import Record
from ...protocol.requests import RequestCode
from ...transport.http2.calls import Call
from ..calls import BROKER_S, Caller
from ..messages.convert import message_of
from ..messages.filters import expression_of, wanted_tags
from ..messages.names import check_group
from ..messages.popped import records_of
from ..queues import readable_brokers
from ..services import Services
from ..statuses import OK, Denied, from_broker, refused, status

_SUSPEND, _SUBSCRIPTION = 2, 4  # flags of a pull: wait for messages, filter by the expression that it carries
_NOT_FOUND = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_TAGS = Property.TAGS.encode()


async def pull_message(services: Services, caller: Caller, call: Call, request: v2.PullMessageRequest) -> None:
    """Send status, messages from an offset on, and the offset to go on with."""
    queue, group = request.message_queue, request.group.name
    broker = await _broker(services, queue)
    check_group(group)
    if request.offset < 0:
        raise Denied(Code.ILLEGAL_OFFSET, f"offset is {request.offset}, it cannot be negative")
    if not 0 < request.batch_size <= services.settings.grpc_client_consumer_long_polling_batch_size:
        most = services.settings.grpc_client_consumer_long_polling_batch_size
        raise Denied(Code.BAD_REQUEST, f"batch_size is {request.batch_size}, it is from 1 to {most}")
    kind, text = expression_of(request.filter_expression)
    wait_ms = _wait_ms(services, caller, request)
    header = PullMessage(
        consumer_group=group,
        topic=queue.topic.name,
        queue_id=queue.id,
        queue_offset=request.offset,
        max_msg_nums=request.batch_size,
        sys_flag=_SUBSCRIPTION | (_SUSPEND if wait_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        subscription=text,
        sub_version=0,
        expression_type=kind,
        bname=broker,
    )
    answer = await services.ask(caller, broker, RequestCode.PULL_MESSAGE, header, timeout_s=wait_ms / 1000 + BROKER_S)
    await _write(services, call, answer, wanted_tags(kind, text))


def _wait_ms(services: Services, caller: Caller, request: v2.PullMessageRequest) -> int:
    remaining = caller.remaining_ms(services.clock.monotonic())
    most = services.settings.grpc_client_consumer_max_long_polling_timeout_millis
    wanted = min(max(request.long_polling_timeout.ToMilliseconds(), 0), most)
    return wanted if remaining is None else min(wanted, max(remaining - 50, 0))


async def _write(services: Services, call: Call, answer: Command, tags: frozenset[str]) -> None:
    if answer.code != ResponseCode.SUCCESS and answer.code not in _NOT_FOUND:
        raise from_broker(answer.code, answer.remark)
    header = PullMessageAnswer.from_fields(answer.fields)
    now = services.clock.now_ms()
    records = records_of(answer.body) if answer.code == ResponseCode.SUCCESS else []
    messages = [record for record in records if not tags or _tag(record) in tags]
    if answer.code == ResponseCode.PULL_OFFSET_MOVED:
        shown = status(Code.ILLEGAL_OFFSET, f"the offset is not there, go on with {header.next_begin_offset}")
    else:
        shown = OK if messages else status(Code.MESSAGE_NOT_FOUND, "no new message")
    await call.send(v2.PullMessageResponse(status=shown).SerializeToString())
    for record in messages:
        await call.send(v2.PullMessageResponse(message=message_of(record, now)).SerializeToString())
    following = header.next_begin_offset or 0
    await call.send(v2.PullMessageResponse(next_offset=following).SerializeToString())


def _tag(record: Record) -> str:
    return (find_property(record.properties, _TAGS) or b"").decode("utf-8", "replace")


async def update_offset(services: Services, caller: Caller, request: v2.UpdateOffsetRequest) -> v2.UpdateOffsetResponse:
    queue = request.message_queue
    broker = await _broker(services, queue)
    check_group(request.group.name)
    if request.offset < 0:
        raise Denied(Code.ILLEGAL_OFFSET, f"offset is {request.offset}, it cannot be negative")
    header = UpdateConsumerOffset(
        consumer_group=request.group.name,
        topic=queue.topic.name,
        queue_id=queue.id,
        commit_offset=request.offset,
        bname=broker,
    )
    answer = await services.ask(caller, broker, RequestCode.UPDATE_CONSUMER_OFFSET, header)
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    return v2.UpdateOffsetResponse(status=OK)


async def get_offset(services: Services, caller: Caller, request: v2.GetOffsetRequest) -> v2.GetOffsetResponse:
    queue = request.message_queue
    broker = await _broker(services, queue)
    check_group(request.group.name)
    header = QueryConsumerOffset(
        consumer_group=request.group.name,
        topic=queue.topic.name,
        queue_id=queue.id,
        set_zero_if_not_found=False,
        bname=broker,
    )
    answer = await services.ask(caller, broker, RequestCode.QUERY_CONSUMER_OFFSET, header)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        raise Denied(Code.OFFSET_NOT_FOUND, "the group has no offset of this queue")
    return v2.GetOffsetResponse(status=OK, offset=_offset(answer))


async def query_offset(services: Services, caller: Caller, request: v2.QueryOffsetRequest) -> v2.QueryOffsetResponse:
    queue = request.message_queue
    broker = await _broker(services, queue)
    topic, number = queue.topic.name, queue.id
    if request.query_offset_policy == QueryOffsetPolicy.BEGINNING:
        asked = TopicQueue(topic=topic, queue_id=number, bname=broker)
        answer = await services.ask(caller, broker, RequestCode.GET_MIN_OFFSET, asked)
    elif request.query_offset_policy == QueryOffsetPolicy.END:
        end = GetMaxOffset(topic=topic, queue_id=number, bname=broker)
        answer = await services.ask(caller, broker, RequestCode.GET_MAX_OFFSET, end)
    else:
        if not request.HasField("timestamp"):
            raise Denied(Code.BAD_REQUEST, "timestamp is missing")
        at = min(max(request.timestamp.ToMilliseconds(), 0), LONG_MAX)
        search = SearchOffset(topic=topic, queue_id=number, timestamp=at, bname=broker)
        answer = await services.ask(caller, broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
    return v2.QueryOffsetResponse(status=OK, offset=_offset(answer))


def _offset(answer: Command) -> int:
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    return OffsetAnswer.from_fields(answer.fields).offset or 0


async def _broker(services: Services, queue: v2.MessageQueue) -> str:
    """Return the broker of a queue that is to be read. Denied if there is none such."""
    topic = queue.topic.name
    services.check_topic(topic)
    readable = readable_brokers(await services.backend.route(topic))
    if not readable:
        raise refused(Code.FORBIDDEN, "no readable queue")
    if queue.broker.name in readable:
        return queue.broker.name
    if queue.broker.name or len(readable) > 1:
        raise Denied(Code.BAD_REQUEST, f"cannot find broker {queue.broker.name}")
    return readable[0]
