"""ReceiveMessage: a pop whose messages go back if the client does not take them."""

from __future__ import annotations

from typing import NamedTuple

from ...model.codes import ResponseCode
from ...model.receipt import Receipt
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.headers.pop import PopMessage
from ...protocol.requests import RequestCode
from ...transport.http2.calls import Call
from ..calls import BROKER_S, Caller
from ..clients.registry import GrpcClient
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
_RESERVE_MS = 50  # of a client's deadline, for the answer to arrive
_NO_TIME = "The deadline time remaining is not enough for polling, please check network condition"
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class _Wish(NamedTuple):
    """A checked receive."""

    client: GrpcClient
    group: str
    topic: str
    broker: str
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
            raise Denied(Code.MESSAGE_NOT_FOUND, f"The client [{caller.client_id}] is disconnected.")
        await _write(services, call, wish, found, filtered)
    except BaseException:
        if wish is not None and taken:
            services.spawn(_give_back(services, caller, wish, taken))
        raise
    if wish.is_renewed:
        for one in found:
            services.renewals.hold(caller.client_id, wish.group, wish.topic, one.receipt, one.record.reconsume_times)


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
    header = PopMessage(
        consumer_group=group,
        topic=topic,
        queue_id=-1,
        max_msg_nums=min(request.batch_size, settings.grpc_client_consumer_long_polling_batch_size),
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=services.clock.now_ms(),
        init_mode=_FROM_THE_END,
        exp_type=kind,
        exp=text,
        order=config is not None and config.consume_message_orderly,
        attempt_id=request.attempt_id or None,
        bname=broker,
    )
    return _Wish(client, group, topic, broker, header, wanted_tags(kind, text), is_renewed)


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
    if remaining is None or wanted <= remaining - _RESERVE_MS:
        return wanted
    if remaining >= least:
        return max(remaining - _RESERVE_MS, 0)
    is_new = caller.client_version >= "5.0.3"
    raise Denied(Code.ILLEGAL_POLLING_TIME if is_new else Code.BAD_REQUEST, _NO_TIME)


# --- the pop ---------------------------------------------------------------------------------------------------------


async def _pop(services: Services, caller: Caller, wish: _Wish) -> Command:
    wait_s = wish.header.poll_time / 1000 + BROKER_S
    answer = await services.ask(caller, wish.broker, RequestCode.POP_MESSAGE, wish.header, timeout_s=wait_s)
    if answer.code in _NOTHING:
        raise Denied(Code.MESSAGE_NOT_FOUND, "no new message")
    if answer.code == ResponseCode.POLLING_FULL:
        raise Denied(Code.TOO_MANY_REQUESTS, "polling full")
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    return answer


async def _filtered(
    services: Services, caller: Caller, wish: _Wish, answer: Command, taken: list[Popped]
) -> tuple[list[Popped], bool]:
    """Return the messages for the client, which `taken` has too, and whether any was not for it.

    A tag with the same hash as a wanted one is acknowledged; what was delivered too often becomes a dead letter.
    """
    messages = popped(answer, wish.broker)
    taken += messages
    most = max_attempts(await services.backend.group(wish.group))
    found: list[Popped] = []
    for one in messages:
        if wish.tags and one.tag not in wish.tags:
            services.spawn(_ack(services, caller, wish, one.receipt))
        elif one.record.reconsume_times >= most:
            services.spawn(_bury(services, caller, wish, one))
        else:
            found.append(one)
            continue
        taken.remove(one)
    return found, len(found) < len(messages)


async def _ack(services: Services, caller: Caller, wish: _Wish, receipt: Receipt) -> None:
    header = ack_header(wish.group, wish.topic, receipt)
    await services.ask(caller, receipt.broker or wish.broker, RequestCode.ACK_MESSAGE, header)


async def _bury(services: Services, caller: Caller, wish: _Wish, one: Popped) -> None:
    message_id = message_of(one.record, 0).system_properties.message_id
    header = dead_letter_header(wish.group, wish.topic, one.receipt, message_id)
    answer = await services.ask(caller, one.receipt.broker, RequestCode.CONSUMER_SEND_MSG_BACK, header)
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    await _ack(services, caller, wish, one.receipt)


# --- the answer ------------------------------------------------------------------------------------------------------


async def _write(services: Services, call: Call, wish: _Wish, found: list[Popped], filtered: bool) -> None:
    now = services.clock.now_ms()
    if not found:
        text = "no match message" if filtered else "no new message"
        await call.send(_element(status=status(Code.MESSAGE_NOT_FOUND, text)))
    else:
        await call.send(_element(status=OK))
        for one in found:
            handle = one.receipt.encode_with_position()
            message = message_of(one.record, now, handle, wish.header.invisible_time)
            await call.send(_element(message=message))
    await call.send(last_element(now))


def _element(status: v2.Status | None = None, message: v2.Message | None = None) -> bytes:
    if message is not None:
        return v2.ReceiveMessageResponse(message=message).SerializeToString()
    return v2.ReceiveMessageResponse(status=status).SerializeToString()


def last_element(now_ms: int) -> bytes:
    """Return the time of the delivery, which ends every answer."""
    last = v2.ReceiveMessageResponse()
    last.delivery_timestamp.FromMilliseconds(now_ms)
    return last.SerializeToString()


async def _give_back(services: Services, caller: Caller, wish: _Wish, messages: list[Popped]) -> None:
    """Let messages that the client did not take come again in a moment; that does not count as a delivery."""
    soon = services.settings.invisible_time_millis_when_clear
    for one in messages:
        header = change_header(wish.group, wish.topic, one.receipt, soon, suspend=True)
        await services.ask(caller, one.receipt.broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
