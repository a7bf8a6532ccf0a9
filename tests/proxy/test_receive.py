"""ReceiveMessage, AckMessage, ChangeInvisibleDuration, dead letters, renewals: against the broker's own pop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.proxy.rpc.receive import NOT_ACCEPTED
from tests.proxy.calling import Endpoint, TestCall, endpoint


def wish(topic: str = "T", group: str = "g", *, invisible_s: float = 30, poll_s: float = 5, **more: Any) -> Any:
    request = v2.ReceiveMessageRequest(
        group=v2.Resource(name=group),
        message_queue=v2.MessageQueue(topic=v2.Resource(name=topic), id=-1, broker=v2.Broker(name="broker-a")),
        filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
        **({"batch_size": 32} | more),
    )
    if not more.get("auto_renew"):
        request.invisible_duration.FromMilliseconds(int(invisible_s * 1000))
    request.long_polling_timeout.FromMilliseconds(int(poll_s * 1000))
    return request


def elements(call: TestCall) -> list[v2.ReceiveMessageResponse]:
    found = []
    while not call.answered.empty():
        found.append(v2.ReceiveMessageResponse.FromString(call.answered.get_nowait()))
    return found


async def receive(grpc: Endpoint, request: Any = None, client: str = "client-1") -> list[v2.ReceiveMessageResponse]:
    call, task = grpc.begin(request or wish(), client)
    for _ in range(100):
        await grpc.clock.settle()
        if task.done():
            break
        await grpc.clock.advance(0.5)
    await task
    answer = elements(call)
    assert answer[-1].HasField("delivery_timestamp")
    return answer[:-1]


def messages(answer: list[v2.ReceiveMessageResponse]) -> list[v2.Message]:
    return [one.message for one in answer if one.HasField("message")]


def bodies(answer: list[v2.ReceiveMessageResponse]) -> list[bytes]:
    return [message.body for message in messages(answer)]


async def ack(grpc: Endpoint, *received: v2.Message, client: str = "client-1", group: str = "g") -> Any:
    entries = [
        v2.AckMessageEntry(
            message_id=one.system_properties.message_id, receipt_handle=one.system_properties.receipt_handle
        )
        for one in received
    ]
    topic = received[0].topic if received else v2.Resource(name="T")
    request = v2.AckMessageRequest(group=v2.Resource(name=group), topic=topic, entries=entries)
    return await grpc.ask("AckMessage", request, client)


async def change(grpc: Endpoint, message: v2.Message, seconds: float, **more: Any) -> Any:
    request = v2.ChangeInvisibleDurationRequest(
        group=v2.Resource(name="g"),
        topic=message.topic,
        receipt_handle=message.system_properties.receipt_handle,
        message_id=message.system_properties.message_id,
        **more,
    )
    request.invisible_duration.FromMilliseconds(int(seconds * 1000))
    return await grpc.ask("ChangeInvisibleDuration", request)


async def test_received_and_acknowledged(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        sent = await grpc.send("T", b"hello", tag="A", keys=["k"], properties={"color": "red"})
        answer = await receive(grpc)
        assert answer[0].status.code == Code.OK
        (message,) = messages(answer)
        system = message.system_properties
        assert (message.body, message.topic.name, dict(message.user_properties)) == (b"hello", "T", {"color": "red"})
        assert (system.tag, list(system.keys), system.message_id) == ("A", ["k"], sent.entries[0].message_id)
        assert (system.delivery_attempt, system.queue_offset, system.body_encoding) == (1, 0, v2.Encoding.IDENTITY)
        assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
        assert len(system.receipt_handle.split(" ")) == 9
        assert system.invisible_duration.ToSeconds() == 30
        done = await ack(grpc, message)
        assert (done.status.code, done.entries[0].status.code) == (Code.OK, Code.OK)
        await grpc.clock.advance(60)
        assert (await receive(grpc))[0].status.message == "no new message"


async def test_a_message_that_is_not_acknowledged_comes_again(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        await grpc.send("T", b"again")
        (first,) = messages(await receive(grpc, wish(invisible_s=10)))
        await grpc.clock.advance(11)
        (second,) = messages(await receive(grpc))
        assert (second.body, second.topic.name, second.system_properties.delivery_attempt) == (b"again", "T", 2)
        late = (await ack(grpc, first)).entries[0].status
        assert late.code == Code.INVALID_RECEIPT_HANDLE
        assert late.message.endswith("receipt handle is expired")
        both = await ack(grpc, first, second)
        assert both.status.code == Code.MULTIPLE_RESULTS
        await grpc.clock.advance(40)
        assert messages(await receive(grpc)) == []


async def test_a_changed_time_gives_a_new_receipt(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        await grpc.send("T")
        (message,) = messages(await receive(grpc, wish(invisible_s=10)))
        changed = await change(grpc, message, 60)
        assert changed.status.code == Code.OK
        assert changed.receipt_handle != message.system_properties.receipt_handle
        await grpc.clock.advance(30)
        assert messages(await receive(grpc)) == []
        message.system_properties.receipt_handle = changed.receipt_handle
        assert (await ack(grpc, message)).status.code == Code.OK
        used = await change(grpc, message, 30)
        assert (used.status.code, used.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, "")
        await grpc.clock.advance(60)
        assert messages(await receive(grpc)) == []
        for seconds in (-1, 43_201):
            assert (await change(grpc, message, seconds)).status.code == Code.ILLEGAL_INVISIBLE_TIME


async def test_a_receive_waits_and_a_message_wakes_it(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        call, task = grpc.begin(wish(poll_s=20))
        await grpc.clock.advance(3)
        assert not task.done()
        await grpc.send("T", b"new")
        await grpc.clock.settle()
        await task
        assert bodies(elements(call)[:-1]) == [b"new"]


async def test_a_cancelled_receive_takes_nothing_with_it(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        _, task = grpc.begin(wish(poll_s=20))
        await grpc.clock.advance(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await grpc.send("T", b"for another")
        (message,) = messages(await receive(grpc))
        assert message.system_properties.delivery_attempt == 1


async def test_messages_that_a_client_does_not_read_come_back(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        for number in range(3):
            await grpc.send("T", b"%d" % number)
        call, task = grpc.begin(wish(invisible_s=600))
        call.window.clear()
        await grpc.clock.settle()
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await grpc.clock.advance(1.2)
        again = messages(await receive(grpc))
        assert sorted(message.body for message in again) == [b"0", b"1", b"2"]
        assert {message.system_properties.delivery_attempt for message in again} == {1}


async def test_what_a_client_can_never_take_ends_among_the_dead_letters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        grpc.broker.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=2))
        await grpc.send("T", b"too large")
        for _ in range(4):  # the first counts as no delivery
            call, task = grpc.begin(wish(invisible_s=600))
            call.window.clear()
            await grpc.clock.settle()
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await grpc.clock.advance(1.2)
        assert messages(await receive(grpc)) == []
        assert NOT_ACCEPTED in caplog.text
        buried = grpc.broker.store.queues.get("%DLQ%g", 0)
        assert buried is not None
        assert buried.next_offset == 1
        await grpc.clock.advance(60)
        assert messages(await receive(grpc)) == []


async def test_checks_of_a_receive(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        grpc.topic("WriteOnly", perm=2)

        async def refusal(request: Any, **more: Any) -> tuple[int, str]:
            call, task = grpc.begin(request, **more)
            await grpc.clock.advance(1.5)
            await task
            status = elements(call)[0].status
            return status.code, status.message

        assert (await refusal(wish()))[0] == Code.UNRECOGNIZED_CLIENT_TYPE
        await grpc.consumer("g", "T")
        assert await refusal(wish(invisible_s=9.999)) == (40011, "the invisibleTime is too small. min is 10000")
        assert await refusal(wish(invisible_s=43_201)) == (40011, "the invisibleTime is too large. max is 43200000")
        assert (await refusal(wish(), timeout_s=3))[0] == Code.ILLEGAL_POLLING_TIME
        assert (await refusal(wish(batch_size=-1)))[0] == Code.BAD_REQUEST
        assert (await refusal(wish("Nowhere")))[0] == Code.TOPIC_NOT_FOUND
        assert (await refusal(wish("WriteOnly")))[1].endswith("no readable queue")
        empty = wish()
        empty.filter_expression.type, empty.filter_expression.expression = v2.FilterType.SQL, ""
        assert (await refusal(empty))[0] == Code.ILLEGAL_FILTER_EXPRESSION


async def test_settings_that_come_a_moment_later_are_waited_for(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        call, task = grpc.begin(wish())
        await grpc.clock.advance(0.5)
        await grpc.consumer("g", "T")
        await grpc.send("T", b"x")
        await grpc.clock.settle()
        await task
        assert bodies(elements(call)[:-1]) == [b"x"]


async def test_tags_of_the_same_hash_are_told_apart(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        await grpc.send("T", b"1", tag="Aa")
        await grpc.send("T", b"2", tag="BB")  # the same hash as Aa
        request = wish()
        request.filter_expression.expression = "Aa"
        assert bodies(await receive(grpc, request)) == [b"1"]
        await grpc.clock.advance(60)
        assert b"2" not in bodies(await receive(grpc, request))


async def test_dead_letters_by_hand_and_by_attempts(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        grpc.group("g", retry_max_times=1)
        await grpc.consumer("g", "T")
        await grpc.send("T", b"by hand")
        (message,) = messages(await receive(grpc))
        request = v2.ForwardMessageToDeadLetterQueueRequest(
            group=v2.Resource(name="g"),
            topic=message.topic,
            receipt_handle=message.system_properties.receipt_handle,
            message_id=message.system_properties.message_id,
        )
        answer = await grpc.ask("ForwardMessageToDeadLetterQueue", request)
        assert (answer.status.code, answer.status.message) == (Code.OK, "0")
        assert grpc.virtual.bodies("%DLQ%g") == ["by hand"]
        await grpc.send("T", b"by attempts")
        for attempt in (1, 2):
            (message,) = messages(await receive(grpc, wish(invisible_s=10)))
            assert message.system_properties.delivery_attempt == attempt
            await grpc.clock.advance(11)
        assert messages(await receive(grpc)) == []
        await grpc.clock.settle()
        assert grpc.virtual.bodies("%DLQ%g") == ["by hand", "by attempts"]


async def test_receipts_that_are_none(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T")
        await grpc.send("T")
        (message,) = messages(await receive(grpc))
        receipt = message.system_properties.receipt_handle.split(" ")
        for handle, code in (
            ("garbage", Code.INTERNAL_SERVER_ERROR),
            (" ".join([*receipt[:5], "broker-x", *receipt[6:]]), Code.INVALID_RECEIPT_HANDLE),
            (" ".join([*receipt[:7], "99", receipt[8]]), Code.INTERNAL_SERVER_ERROR),
        ):
            message.system_properties.receipt_handle = handle
            assert (await ack(grpc, message)).entries[0].status.code == code, handle
        assert (await ack(grpc)).status.message == "ack message result is empty"


async def test_push_consumers_keep_their_messages(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T", push=True)
        await grpc.consumer("g", "T", client="client-2")
        await grpc.send("T", b"long work")
        (message,) = messages(await receive(grpc, wish(auto_renew=True)))
        await grpc.clock.advance(600)
        assert messages(await receive(grpc, client="client-2")) == []
        assert len(grpc.services.renewals) == 1
        assert (await ack(grpc, message)).status.code == Code.OK  # with its first receipt
        assert len(grpc.services.renewals) == 0
        await grpc.clock.advance(4_000)
        assert messages(await receive(grpc, client="client-2")) == []


async def test_a_client_that_says_goodbye_gives_back_what_it_has(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T", push=True)
        await grpc.consumer("g", "T", client="client-2")
        await grpc.send("T", b"for another")
        assert len(messages(await receive(grpc, wish(auto_renew=True)))) == 1
        await grpc.ask("NotifyClientTermination", v2.NotifyClientTerminationRequest(group=v2.Resource(name="g")))
        await grpc.clock.advance(1.2)
        assert bodies(await receive(grpc, client="client-2")) == [b"for another"]


async def test_a_client_whose_stream_broke_gives_back_what_it_has(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        stream = await grpc.consumer("g", "T", push=True)
        await grpc.consumer("g", "T", client="client-2")
        await grpc.send("T", b"for another")
        assert len(messages(await receive(grpc, wish(auto_renew=True)))) == 1
        await stream.cancel()
        await grpc.clock.advance(4)
        stream = await grpc.consumer("g", "T", push=True)  # back in time: it keeps the message
        await grpc.clock.advance(10)
        assert messages(await receive(grpc, client="client-2")) == []
        await stream.cancel()
        await grpc.clock.advance(6.3)
        assert bodies(await receive(grpc, client="client-2")) == [b"for another"]


async def test_renewals_end_after_three_hours(tmp_path: Path) -> None:
    async with endpoint(tmp_path, channel_expired_timeout=1 << 40) as grpc:
        grpc.topic("T", queues=1)
        await grpc.consumer("g", "T", push=True)
        await grpc.send("T", b"stuck")
        assert len(messages(await receive(grpc, wish(auto_renew=True)))) == 1
        await grpc.clock.advance(4 * 3600)
        assert len(grpc.services.renewals) == 0
        (message,) = messages(await receive(grpc))
        assert message.system_properties.delivery_attempt == 2
