"""A consumer that subscribes otherwise than its group, where the broker refuses that: every call says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.bodies.own import ALIKE as WHY
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import ClientType, Code
from pyromq.proxy.clients.refusals import SILENT_S
from pyromq.proxy.clients.registry import FORGOTTEN_S
from tests.proxy.calling import Endpoint, Stream, endpoint


def settings(tag: str) -> v2.Settings:
    expression = v2.FilterExpression(type=v2.FilterType.TAG, expression=tag)
    entry = v2.SubscriptionEntry(topic=v2.Resource(name="T"), expression=expression)
    subscription = v2.Subscription(group=v2.Resource(name="g"), subscriptions=[entry])
    return v2.Settings(client_type=ClientType.SIMPLE_CONSUMER, subscription=subscription)


async def accepted(grpc: Endpoint, client: str, tag: str) -> Stream:
    stream = grpc.stream(client)
    await stream.say(settings=settings(tag))
    assert (await stream.heard()).status.code == Code.OK
    return stream


async def refused(stream: Stream, tag: str) -> None:
    """Settings are answered, since clients wait for good ones; the command before says why receives will be refused."""
    await stream.say(settings=settings(tag))
    told = await stream.heard()
    assert (told.status.code, told.HasField("settings")) == (Code.FORBIDDEN, False)
    assert WHY in told.status.message
    answer = await stream.heard()
    assert (answer.status.code, answer.HasField("settings")) == (Code.OK, True)


async def received(grpc: Endpoint, client: str, tag: str) -> tuple[v2.Status, list[bytes]]:
    request = v2.ReceiveMessageRequest(
        group=v2.Resource(name="g"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="T")),
        filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression=tag),
        batch_size=4,
    )
    request.invisible_duration.FromSeconds(30)
    call, done = grpc.begin(request, client)
    while not done.done():
        await grpc.clock.advance(0.5)
    await done
    answers = [v2.ReceiveMessageResponse.FromString(call.answered.get_nowait()) for _ in range(call.answered.qsize())]
    (status,) = [one.status for one in answers if one.HasField("status")]
    return status, [one.message.body for one in answers if one.HasField("message")]


async def beat(grpc: Endpoint, client: str) -> v2.Status:
    request = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=ClientType.SIMPLE_CONSUMER)
    status: v2.Status = (await grpc.ask("Heartbeat", request, client)).status
    return status


async def test_who_comes_second_hears_why_from_each_call_until_the_group_agrees(tmp_path: Path) -> None:
    async with endpoint(tmp_path, refuse_conflicting_subscriptions=True) as grpc:
        grpc.topic("T")
        await accepted(grpc, "first", "a")
        await refused(grpc.stream("second"), "b")
        await grpc.send("T", b"one", tag="b")
        status, bodies = await received(grpc, "second", "b")
        assert (status.code, bodies) == (Code.FORBIDDEN, [])
        for text in (WHY, "first", "second"):
            assert text in status.message
        status = await beat(grpc, "second")
        assert status.code == Code.FORBIDDEN
        assert WHY in status.message

        leaving = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
        assert (await grpc.ask("NotifyClientTermination", leaving, "first")).status.code == Code.OK
        assert (await beat(grpc, "second")).code == Code.OK
        status, bodies = await received(grpc, "second", "b")
        assert (status.code, bodies) == (Code.OK, [b"one"])


async def test_a_dead_member_leaves_its_group_with_its_grace(tmp_path: Path) -> None:
    async with endpoint(tmp_path, refuse_conflicting_subscriptions=True) as grpc:
        grpc.topic("T")
        first = await accepted(grpc, "first", "a")
        await refused(grpc.stream("second"), "b")
        await first.cancel()
        await grpc.clock.advance(4.5)
        assert (await beat(grpc, "second")).code == Code.FORBIDDEN
        await grpc.clock.advance(1)
        assert (await beat(grpc, "second")).code == Code.OK
        assert (await beat(grpc, "first")).code == Code.FORBIDDEN, "it is back, and the group has another subscription"


async def test_a_member_whose_stream_is_lost_is_back_with_its_heartbeat(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        members = grpc.broker.clients.consumers
        for is_heard in (True, False):
            stream = await accepted(grpc, "first", "a")
            await stream.cancel()
            await grpc.clock.advance(5.5)
            assert members.find("g") is None
            if is_heard:
                assert (await beat(grpc, "first")).code == Code.OK
                assert members.find("g") is not None
        await grpc.clock.advance(FORGOTTEN_S)
        assert (await beat(grpc, "first")).code == Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_member_that_changes_what_it_wants_is_no_member(tmp_path: Path) -> None:
    async with endpoint(tmp_path, refuse_conflicting_subscriptions=True) as grpc:
        grpc.topic("T")
        await accepted(grpc, "first", "a")
        second = await accepted(grpc, "second", "a")
        await refused(second, "b")
        assert (await received(grpc, "second", "b"))[0].code == Code.FORBIDDEN
        await accepted(grpc, "second", "a")
        await grpc.send("T", b"one", tag="a")
        assert await received(grpc, "second", "a") == (v2.Status(code=Code.OK, message="OK"), [b"one"])


@pytest.mark.parametrize("way", ["says goodbye", "falls silent"])
async def test_who_was_refused_and_leaves_is_counted_no_longer(tmp_path: Path, way: str) -> None:
    async with endpoint(tmp_path, refuse_conflicting_subscriptions=True) as grpc:
        grpc.topic("T")
        await accepted(grpc, "first", "a")
        for _ in range(3):  # clients try again and again
            await refused(grpc.stream("second"), "b")
        conflicts = grpc.broker.clients.consumers.conflicts
        assert len(conflicts.refused) == 1
        if way == "says goodbye":
            leaving = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
            assert (await grpc.ask("NotifyClientTermination", leaving, "second")).status.code == Code.OK
        else:
            await grpc.clock.advance(SILENT_S)
        assert not conflicts.refused
        assert (await beat(grpc, "second")).code == Code.UNRECOGNIZED_CLIENT_TYPE
