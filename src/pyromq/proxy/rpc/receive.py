"""ReceiveMessage: a pop whose messages go back if the client does not take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ...model.codes import ResponseCode
from ...model.message import NO_ATTEMPT_LEFT
from ...model.pop_names import popped_topic
from ...model.receipt import NORMAL, Receipt
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.headers.pop import PopMessage
from ...protocol.requests import RequestCode
from ...transport.http2.calls import Call
from ..calls import BROKER_S, Caller
from ..clients.grpc_client import GrpcClient
from ..clients.settings import max_attempts
from ..messages.convert import message_of
from ..messages.filters import expression_of, wanted_tags
from ..messages.names import check_group, check_invisible
from ..messages.popped import Popped, popped
from ..receipts import ack_header, change_header
from ..services import Services
from ..statuses import OK, Denied, from_broker, status
from .dead_letters import dead_letter_header

_FROM_THE_END = 1  # initMode: where a group without offsets begins
RESERVE_MS = 50  # of a client's deadline, for the answer to arrive
DISCONNECTED = "The client [{}] is disconnected."
_NO_TIME = "The deadline time remaining is not enough for polling, please check network condition"
NOT_ACCEPTED = "a message was handed out again and its client did not take it: this counts as a delivery"
_LIKELY = "the client cancels its receives, or takes no answers of this size (grpc-js: 4 MiB unless it is told more)"
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class ReceivedFrom(NamedTuple):
    """Where messages come from, and for whom."""

    group: str
    topic: str
    broker: str


class _Wish(NamedTuple):
    """A checked receive."""

    client: GrpcClient
    source: ReceivedFrom
    header: PopMessage
    tags: frozenset[str]
    is_renewed: bool


async def receive_message(services: Services, caller: Caller, call: Call, request: v2.ReceiveMessageRequest) -> None:
    """Send status, messages and time. A call that ends early gives every message back."""
    taken: list[Popped] = []
    wish: _Wish | None = None
    try:
        wish = await _checked(services, caller, request)
        answer = await _pop(services, caller, wish)
        found, filtered = await _filtered(services, caller, wish, answer, taken)
        if wish.is_renewed and found and wish.client.stream is None:
            raise Denied(Code.MESSAGE_NOT_FOUND, DISCONNECTED.format(caller.client_id))
        await _write(services, call, wish, found, filtered)
    except BaseException:
        if wish is not None and taken:
            services.spawn(give_back(services, caller, wish.source, [one.receipt for one in taken]))
        raise
    if wish.is_renewed:
        group, topic, _ = wish.source
        for one in found:
            services.renewals.hold(caller.client_id, group, topic, one.receipt, one.record.reconsume_times)


# --- checks ----------------------------------------------------------------------------------------------------------


async def _checked(services: Services, caller: Caller, request: v2.ReceiveMessageRequest) -> _Wish:
    settings = services.settings
    client = await services.clients.awaited(caller.client_id)
    poll_ms = _poll_ms(services, caller, client, request)
    topic, group = request.message_queue.topic.name, request.group.name
    services.check_topic(topic)
    check_group(group)
    is_renewed = request.auto_renew and settings.enable_proxy_auto_renew
    if is_renewed:
        invisible_ms = settings.default_invisible_time_mills
    else:
        invisible_ms = request.invisible_duration.ToMilliseconds()
        least = settings.min_invisible_time_mills_for_recv
        check_invisible(invisible_ms, least, settings.max_invisible_time_mills)
    kind, text = expression_of(request.filter_expression)
    if request.batch_size < 0:
        raise Denied(Code.BAD_REQUEST, f"batch_size is {request.batch_size}, it cannot be negative")
    config = await services.backend.group(group)
    broker = await services.queues.for_receive(topic, request.message_queue.broker.name)
    header = msgspec.structs.replace(
        pop_header(ReceivedFrom(group, topic, broker), kind, text),
        max_msg_nums=min(request.batch_size, settings.grpc_client_consumer_long_polling_batch_size),
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=services.clock.now_ms(),
        order=config is not None and config.consume_message_orderly,
        attempt_id=request.attempt_id or None,
    )
    return _Wish(client, ReceivedFrom(group, topic, broker), header, wanted_tags(kind, text), is_renewed)


def pop_header(source: ReceivedFrom, kind: str, text: str) -> PopMessage:
    """Return what all pops for receives of a group, topic and filter have in common."""
    return PopMessage(
        consumer_group=source.group,
        topic=source.topic,
        queue_id=-1,
        max_msg_nums=1,
        invisible_time=0,
        poll_time=0,
        init_mode=_FROM_THE_END,
        exp_type=kind,
        exp=text,
        bname=source.broker,
    )


def _poll_ms(services: Services, caller: Caller, client: GrpcClient, request: v2.ReceiveMessageRequest) -> int:
    """Return how long to wait for messages. Denied if the client waits for less than the least."""
    settings = services.settings
    least = settings.grpc_client_consumer_min_long_polling_timeout_millis
    most = settings.grpc_client_consumer_max_long_polling_timeout_millis
    remaining = caller.remaining_ms(services.clock.monotonic())
    if request.HasField("long_polling_timeout"):
        wanted = request.long_polling_timeout.ToMilliseconds()
    elif remaining is not None:
        wanted = remaining - client.request_timeout_ms // 2
    else:
        wanted = most
    wanted = min(max(wanted, least), most)
    if remaining is None or wanted <= remaining - RESERVE_MS:
        return wanted
    if remaining >= least:
        return max(remaining - RESERVE_MS, 0)
    is_new = caller.client_version >= "5.0.3"
    raise Denied(Code.ILLEGAL_POLLING_TIME if is_new else Code.BAD_REQUEST, _NO_TIME)


# --- the pop ---------------------------------------------------------------------------------------------------------


async def _pop(services: Services, caller: Caller, wish: _Wish) -> Command:
    wait_s = wish.header.poll_time / 1000 + BROKER_S
    answer = await services.ask(caller, wish.source.broker, RequestCode.POP_MESSAGE, wish.header, timeout_s=wait_s)
    check_found(answer.code, answer.remark)
    return answer


def check_found(code: int, remark: str | None) -> None:
    """Raise Denied for a broker's answer to a pop that has no messages."""
    if code in _NOTHING:
        raise Denied(Code.MESSAGE_NOT_FOUND, "no new message")
    if code == ResponseCode.POLLING_FULL:
        raise Denied(Code.TOO_MANY_REQUESTS, "polling full")
    if code != ResponseCode.SUCCESS:
        raise from_broker(code, remark)


async def _filtered(
    services: Services, caller: Caller, wish: _Wish, answer: Command, taken: list[Popped]
) -> tuple[list[Popped], bool]:
    """Return the messages for the client, which `taken` has too, and whether any was not for it."""
    messages = popped(answer, wish.source.broker)
    taken += messages
    most = max_attempts(await services.backend.group(wish.source.group))
    found: list[Popped] = []
    for one in messages:
        if is_set_aside(services, caller, wish.source, one, wish.tags, most):
            taken.remove(one)
        else:
            found.append(one)
    return found, len(found) < len(messages)


def is_set_aside(
    services: Services, caller: Caller, source: ReceivedFrom, one: Popped, tags: frozenset[str], most: int
) -> bool:
    """Return whether a message is not for the client, and deal with it then.

    A tag with the same hash as a wanted one is acknowledged; what was delivered too often becomes a dead letter.
    """
    if tags and one.tag not in tags:
        services.spawn(_ack(services, caller, source, one.receipt))
    elif one.record.reconsume_times >= most:
        services.spawn(_bury(services, caller, source, one))
    else:
        return False
    return True


async def _ack(services: Services, caller: Caller, source: ReceivedFrom, receipt: Receipt) -> None:
    header = ack_header(source.group, source.topic, receipt)
    await services.ask(caller, receipt.broker or source.broker, RequestCode.ACK_MESSAGE, header)


async def _bury(services: Services, caller: Caller, source: ReceivedFrom, one: Popped) -> None:
    message_id = message_of(one.record, 0).system_properties.message_id
    header = dead_letter_header(source.group, source.topic, one.receipt, message_id, NO_ATTEMPT_LEFT)
    answer = await services.ask(caller, one.receipt.broker, RequestCode.CONSUMER_SEND_MSG_BACK, header)
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    await _ack(services, caller, source, one.receipt)


# --- the answer ------------------------------------------------------------------------------------------------------


async def _write(services: Services, call: Call, wish: _Wish, found: list[Popped], filtered: bool) -> None:
    now = services.clock.now_ms()
    if not found:
        await call.send(NO_MATCH if filtered else _element(status=status(Code.MESSAGE_NOT_FOUND, "no new message")))
    else:
        await call.send(_OK)
        for one in found:
            handle = one.receipt.encode_with_position()
            message = message_of(one.record, now, handle, wish.header.invisible_time)
            await call.send(_element(message=message))
    await call.send(last_element(now))


def _element(status: v2.Status | None = None, message: v2.Message | None = None) -> bytes:
    if message is not None:
        return v2.ReceiveMessageResponse(message=message).SerializeToString()
    return v2.ReceiveMessageResponse(status=status).SerializeToString()


NO_MATCH = _element(status=status(Code.MESSAGE_NOT_FOUND, "no match message"))
_OK = _element(status=OK)


def last_element(now_ms: int) -> bytes:
    """Return the time of the delivery, which ends every answer."""
    last = v2.ReceiveMessageResponse()
    last.delivery_timestamp.FromMilliseconds(now_ms)
    return last.SerializeToString()


async def give_back(services: Services, caller: Caller, source: ReceivedFrom, receipts: Sequence[Receipt]) -> None:
    """Let messages that the client did not take come again in a moment. The first time that counts as no delivery.

    One that is a copy already counts: a client that can never take it (grpc-js refuses answers of more than 4 MiB)
    would have it copied for ever; so it ends among the dead letters.
    """
    soon = services.settings.invisible_time_millis_when_clear
    for one in receipts:
        is_copy = one.retry != NORMAL
        if is_copy:
            place = f"{popped_topic(source.topic, source.group, one.retry)} queue {one.queue_id} offset {one.offset}"
            services.few.warning(NOT_ACCEPTED, topic=source.topic, group=source.group, message=place, likely=_LIKELY)
        header = change_header(source.group, source.topic, one, soon, suspend=not is_copy)
        await services.ask(caller, one.broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
