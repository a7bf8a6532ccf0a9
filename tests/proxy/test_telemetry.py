"""Telemetry streams: settings and their answers, refusals, and what servers ask of clients."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.ids import offset_message_id
from pyromq.protocol.bodies.connections import ConsumeMessageDirectlyResult
from pyromq.protocol.bodies.groups import ExponentialRetryPolicy, GroupRetryPolicy
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.status import GrpcStatus
from pyromq.protocol.grpc.v2 import ClientType, Code
from pyromq.protocol.requests import RequestCode
from pyromq.transport.http2.calls import GrpcError
from tests.proxy.calling import Endpoint, endpoint


def subscription(group: str = "g", topic: str = "T", text: str = "*", kind: int = 1) -> v2.Subscription:
    return v2.Subscription(
        group=v2.Resource(name=group),
        subscriptions=[
            v2.SubscriptionEntry(
                topic=v2.Resource(name=topic), expression=v2.FilterExpression(type=kind, expression=text)
            )
        ],
    )


async def refusal(grpc: Endpoint, metadata: dict[str, str] | None = None, **settings: Any) -> tuple[GrpcStatus, str]:
    stream = grpc.stream("refused", **(metadata or {}))
    await stream.say(settings=v2.Settings(**settings))
    with pytest.raises(GrpcError) as fault:
        await stream.heard()
    return fault.value.status, fault.value.text


async def test_a_producer_is_told_how_to_send(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        stream = grpc.stream()
        publishing = v2.Publishing(topics=[v2.Resource(name="T")])
        await stream.say(settings=v2.Settings(client_type=ClientType.PRODUCER, publishing=publishing))
        answer = await stream.heard()
        assert answer.status.code == Code.OK
        told = answer.settings
        assert told.publishing.max_body_size == 4 << 20
        assert told.publishing.validate_message_type
        assert [topic.name for topic in told.publishing.topics] == ["T"]
        assert told.backoff_policy.max_attempts == 3
        assert told.backoff_policy.exponential_backoff.initial.ToMilliseconds() == 10
        assert grpc.broker.producers.members("T")
        await stream.close()


async def test_a_consumer_is_told_its_groups_rules(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        policy = GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=ExponentialRetryPolicy())
        grpc.group("g", retry_max_times=3, consume_message_orderly=True, group_retry_policy=policy)
        stream = grpc.stream()
        await stream.say(settings=v2.Settings(client_type=ClientType.SIMPLE_CONSUMER, subscription=subscription()))
        told = (await stream.heard()).settings
        assert told.subscription.fifo
        assert told.subscription.receive_batch_size == 32
        assert told.subscription.long_polling_timeout.ToSeconds() == 20
        assert told.backoff_policy.max_attempts == 4
        assert told.backoff_policy.exponential_backoff.max.ToMilliseconds() == 7_200_000
        other = grpc.stream("client-2")
        fresh = subscription("new")
        await other.say(settings=v2.Settings(client_type=ClientType.PUSH_CONSUMER, subscription=fresh))
        steps = (await other.heard()).settings.backoff_policy
        assert steps.max_attempts == 17
        assert [step.ToSeconds() for step in steps.customized_backoff.next][:4] == [1, 5, 10, 30]


async def test_settings_that_are_refused_end_the_stream(tmp_path: Path) -> None:
    failed = "process client telemetryCommand failed. "
    async with endpoint(tmp_path) as grpc:
        bad = v2.Publishing(topics=[v2.Resource(name="a b")])
        status, text = await refusal(grpc, publishing=bad)
        assert status == GrpcStatus.INVALID_ARGUMENT
        assert text.startswith(f"{failed}The specified topic[a b]")
        assert await refusal(grpc, client_type=1) == (
            GrpcStatus.INVALID_ARGUMENT,
            "there is no publishing or subscription data in settings",
        )
        assert (await refusal(grpc, client_type=2, subscription=subscription("")))[1] == (
            failed + "the specified group is blank"
        )
        for text, kind in (("", v2.FilterType.SQL), ("||", v2.FilterType.TAG)):
            wanted = subscription(text=text, kind=kind)
            assert await refusal(grpc, client_type=2, subscription=wanted) == (
                GrpcStatus.INVALID_ARGUMENT,
                failed + "expression format is not correct",
            )
        assert await refusal(grpc, client_type=ClientType.PULL_CONSUMER, subscription=subscription()) == (
            GrpcStatus.INTERNAL,
            failed + "Client type is not consumer, type: PULL_CONSUMER",
        )
        assert await refusal(grpc, {"x_mq_language": "KLINGON"}, publishing=v2.Publishing()) == (
            GrpcStatus.INTERNAL,
            failed + "No enum constant org.apache.rocketmq.remoting.protocol.LanguageCode.KLINGON",
        )


async def test_lite_consumers_are_told_that_there_is_none(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        stream = grpc.stream()
        wish = v2.Settings(client_type=ClientType.LITE_PUSH_CONSUMER, subscription=subscription())
        await stream.say(settings=wish)
        answer = await stream.heard()
        assert answer.status.code == Code.NOT_IMPLEMENTED
        assert "lite topics are not there yet" in answer.status.message
        request = v2.SyncLiteSubscriptionRequest(
            topic=v2.Resource(name="T"), group=v2.Resource(name="g"), lite_topic_set=["a"]
        )
        assert (await grpc.ask("SyncLiteSubscription", request)).status.code == Code.NOT_IMPLEMENTED


async def test_without_a_client_id_the_stream_stays(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        stream = grpc.stream(" ")
        await stream.say(settings=v2.Settings(client_type=1, publishing=v2.Publishing()))
        assert (await stream.heard()).status.code == Code.CLIENT_ID_REQUIRED
        assert not stream.task.done()
        await stream.close()


async def test_heartbeats_and_farewell(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        beat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=ClientType.SIMPLE_CONSUMER)
        unknown = (await grpc.ask("Heartbeat", beat)).status
        assert (unknown.code, unknown.message) == (40015, "cannot find client settings for this client")
        await grpc.consumer("g", "T")
        assert (await grpc.ask("Heartbeat", beat)).status.code == Code.OK
        assert (await grpc.ask("Heartbeat", v2.HeartbeatRequest())).status.code == Code.ILLEGAL_CONSUMER_GROUP
        found = grpc.broker.clients.consumers.find("g")
        assert found is not None
        assert found.client_ids == ["client-1"]
        bye = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
        assert (await grpc.ask("NotifyClientTermination", bye)).status.code == Code.OK
        assert grpc.broker.clients.consumers.find("g") is None
        assert (await grpc.ask("Heartbeat", beat)).status.code == Code.UNRECOGNIZED_CLIENT_TYPE


async def test_heartbeats_that_say_nothing_new_keep_clients_and_make_again_what_is_gone(tmp_path: Path) -> None:
    beat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=ClientType.SIMPLE_CONSUMER)
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        await grpc.consumer("g", "T")
        await grpc.producer("T", client="client-2")
        for _ in range(30):  # five minutes
            await grpc.clock.advance(10)
            assert (await grpc.ask("Heartbeat", beat)).status.code == Code.OK
            assert (await grpc.ask("Heartbeat", v2.HeartbeatRequest(), client="client-2")).status.code == Code.OK
        found = grpc.broker.clients.consumers.find("g")
        assert found is not None
        assert [member.seen for member in found.members.values()] == [grpc.clock.monotonic()]
        (producer,) = grpc.broker.producers.members("T").values()
        assert (producer.seen, producer.seen_ms) == (grpc.clock.monotonic(), grpc.clock.now_ms())
        grpc.broker.groups.delete("g")
        for _ in range(6):
            await grpc.clock.advance(10)
            assert (await grpc.ask("Heartbeat", beat)).status.code == Code.OK
        assert "g" in grpc.broker.groups


async def test_a_client_that_the_broker_has_lost_is_registered_by_its_next_heartbeat(tmp_path: Path) -> None:
    beat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=ClientType.SIMPLE_CONSUMER)
    async with endpoint(tmp_path) as grpc:
        await grpc.consumer("g", "T")
        (member,) = grpc.broker.clients.consumers.find("g").members  # type: ignore[union-attr]
        grpc.broker.clients.consumers.lose(member)
        assert grpc.broker.clients.consumers.find("g") is None
        assert (await grpc.ask("Heartbeat", beat)).status.code == Code.OK
        assert grpc.broker.clients.consumers.find("g") is not None


async def test_a_client_without_heartbeats_is_forgotten(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        await grpc.consumer("g", "T")
        await grpc.clock.advance(119)
        grpc.broker.clients.housekeep()
        assert len(grpc.services.clients) == 1
        await grpc.clock.advance(2)
        grpc.broker.clients.housekeep()
        assert len(grpc.services.clients) == 0
        assert grpc.broker.clients.consumers.find("g") is None


async def test_one_client_may_produce_and_then_consume(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        await grpc.producer("T")
        await grpc.consumer("g", "T")
        assert grpc.broker.clients.consumers.find("g") is not None
        assert grpc.broker.producers.members("T")


async def test_a_message_is_tried_by_a_grpc_client(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        await grpc.send("T", b"try me", properties={"a": "1"})
        stored = next(record for queue in (0, 1) for record in grpc.virtual.stored("T", queue))
        stream = await grpc.consumer("g", "T", push=True)
        id_ = offset_message_id(stored.store_host, stored.physical_offset)
        asked = asyncio.ensure_future(
            grpc.virtual.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="g", clientId="client-1", msgId=id_)
        )
        command = (await stream.heard()).verify_message_command
        assert command.message.body == b"try me"
        assert not command.message.system_properties.HasField("receipt_handle")
        result = v2.VerifyMessageResult(nonce=command.nonce)
        await stream.say(status=v2.Status(code=Code.FAILED_TO_CONSUME_MESSAGE), verify_message_result=result)
        answer = await asked
        body = RequestCode.CONSUME_MESSAGE_DIRECTLY.gives.read_body(bytes(answer.body))
        assert isinstance(body, ConsumeMessageDirectlyResult)
        assert (body.consume_result, body.remark) == ("CR_LATER", "from gRPC client")


async def test_stack_traces_of_a_grpc_client(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        stream = await grpc.consumer("g", "T", push=True)
        fields: dict[str, object] = {"consumerGroup": "g", "clientId": "client-1", "jstackEnable": "true"}
        asked = asyncio.ensure_future(grpc.virtual.call(RequestCode.GET_CONSUMER_RUNNING_INFO, b"", **fields))
        command = (await stream.heard()).print_thread_stack_trace_command
        trace = v2.ThreadStackTrace(nonce=command.nonce, thread_stack_trace="main: waiting")
        await stream.say(status=v2.Status(code=Code.OK), thread_stack_trace=trace)
        body = RequestCode.GET_CONSUMER_RUNNING_INFO.gives.read_body(bytes((await asked).body))
        assert body.jstack == "main: waiting"


async def test_a_client_that_answers_nothing_is_given_up(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        await grpc.consumer("g", "T", push=True)
        fields: dict[str, object] = {"consumerGroup": "g", "clientId": "client-1", "jstackEnable": "true"}
        asked = asyncio.ensure_future(grpc.virtual.call(RequestCode.GET_CONSUMER_RUNNING_INFO, b"", **fields))
        await grpc.clock.advance(5.1)
        answer = await asked
        assert "call remote timeout" in (answer.remark or "")
