"""Traces that the SDK writes: against our broker on real sockets, and on virtual time where the broker misbehaves."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.client.core.retry import RetryLater
from pyromq.client.errors import Refused, TopicNotFound
from pyromq.client.received import Received
from pyromq.client.tracing.trace_writer import KEPT_EVENTS, MESSAGE_EVENTS
from pyromq.errors import ConfigError
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message_trace import ConsumeOutcome, MessageKind, MessageTrace, Sent, Traced
from pyromq.model.names import TRACE_TOPIC
from pyromq.protocol.compression import Compression, decompress
from pyromq.protocol.requests import RequestCode
from pyromq.protocol.trace import decode_trace
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster
from tests.client.conftest import NewWorld
from tests.client.world import Servers, turns_until

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(world: Servers, word: str, **more: Any) -> MessageTrace:
    async with world.client() as client:
        (found,) = await client.traces(word, **more)
        return found


async def test_a_send_and_its_deliveries(world: Servers) -> None:
    """The first is refused by the handler, the second is taken."""
    await world.create_topic("T", 1)
    attempts: list[Received] = []
    done = asyncio.Event()

    async def handle(msg: Received) -> None:
        attempts.append(msg)
        if len(attempts) == 1:
            raise RetryLater(1)
        done.set()

    async with world.client(trace=True) as client, client.producer("PG") as producer:
        sent = await producer.send("T", "hello", tag="a", keys=["k1"])
        async with client.push_consumer("T", handle, group="G", begin=FIRST):
            await done.wait()
    found = await story(world, sent.message_id)
    (publication,) = found.sent
    assert (publication.topic, publication.tags, publication.keys, publication.group) == ("T", "a", "k1", "PG")
    assert (publication.success, publication.offset_id, publication.body_length) == (True, sent.offset_message_id, 5)
    assert (publication.store_host, publication.region) == (world.brokers["broker-a"].address, "DefaultRegion")
    first, second = found.deliveries
    assert first.group == second.group == "G"
    assert first.before is not None
    assert first.after is not None
    assert second.before is not None
    assert second.after is not None
    assert (first.before.retries, first.after.outcome) == (0, ConsumeOutcome.FAILED)
    assert (second.before.retries, second.after.outcome) == (1, ConsumeOutcome.SUCCESS)
    assert (await story(world, "k1")) == found


async def test_a_message_that_is_pulled(world: Servers) -> None:
    """Both ends of its delivery at once, as of Java's lite pull consumer; a rest that is polled again is no news."""
    await world.create_topic("T", 1)
    async with world.client(trace=True) as client, client.producer("PG") as producer:
        sent = await producer.send("T", "hello", keys=["k1"])
        await producer.send("T", "more")
        async with client.pull_consumer("G", begin=FIRST) as consumer:
            await consumer.assign(await consumer.queues("T"))
            async for msg in consumer:
                assert msg.id == sent.message_id
                break
            await consumer.poll(timeout=0.1)
    (delivery,) = (await story(world, sent.message_id)).deliveries
    assert delivery.group == "G"
    assert delivery.before is not None
    assert delivery.after is not None
    assert (delivery.before.retries, delivery.after.outcome, delivery.after.cost_ms) == (0, ConsumeOutcome.SUCCESS, 0)


async def test_a_batch_is_traced_message_by_message_and_kinds_are_told(world: Servers) -> None:
    await world.create_topic("T", 1)
    async with world.client(trace=True) as client, client.producer() as producer:
        batch = await producer.send_many("T", ["a", "bb"], tag="t")
        ordered = await producer.send("T", "c", order_key="k")
    for result, size in zip(batch, (1, 2), strict=True):
        (publication,) = (await story(world, result.message_id)).sent
        assert (publication.body_length, publication.tags, publication.kind) == (size, "t", MessageKind.NORMAL)
    assert (await story(world, ordered.message_id)).sent[0].kind is MessageKind.ORDERED


async def test_both_steps_of_a_transaction(world: Servers) -> None:
    await world.create_topic("T", 1)
    async with world.client(trace=True) as client, client.producer("PG") as producer:
        async with producer.transaction("T", "a", tag="t", keys=["k"]) as kept:
            pass
        async with producer.transaction("T", "b") as dropped:
            dropped.rollback()
    found = await story(world, kept.message_id)
    assert [one.kind for one in found.sent] == [MessageKind.HALF]
    (end,) = found.ends
    assert (end.state, end.from_check, end.tags, end.keys, end.group) == ("COMMIT_MESSAGE", False, "t", "k", "PG")
    assert [one.state for one in (await story(world, dropped.message_id)).ends] == ["ROLLBACK_MESSAGE"]


async def test_answers_to_a_broker_that_asks(world_with: NewWorld) -> None:
    world = await world_with(transaction_check_interval=50, transaction_time_out=50)
    await world.create_topic("T", 1)
    asked = asyncio.Event()

    async def check(msg: Received) -> bool:
        asked.set()
        return True

    async with world.client(trace=True) as client, client.producer("PG") as producer:
        producer.transaction_check("T", check)
        async with producer.transaction("T", "a", tag="t") as transaction:
            transaction.leave_open()
        await asked.wait()
    ends = (await story(world, transaction.message_id)).ends
    assert (ends[0].state, ends[0].from_check) == ("UNKNOW", False)
    assert (ends[1].state, ends[1].from_check, ends[1].tags) == ("COMMIT_MESSAGE", True, "t")


async def test_recalls(world_with: NewWorld) -> None:
    world = await world_with(recall_message_enable=True)
    await world.create_topic("T", 1)
    async with world.client(trace=True) as client, client.producer("PG") as producer:
        sent = await producer.send("T", "a", delay=300)
        await producer.recall(sent)
    found = await story(world, sent.message_id)
    assert [one.kind for one in found.sent] == [MessageKind.DELAYED]
    assert [(one.topic, one.group, one.success) for one in found.recalls] == [("T", "PG", True)]


async def test_a_topic_of_ones_own_and_the_command_line(world: Servers) -> None:
    await world.create_topic("T", 1)
    async with world.client(trace="Mine") as client, client.producer("PG") as producer:
        sent = await producer.send("MadeByThis", "hello")
    words = ["msg", "trace", sent.message_id, "--trace-topic", "Mine", "--json", "-n", next(iter(world.name_servers))]
    shown = await asyncio.to_thread(CliRunner().invoke, cli, words)
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    (publication,) = found["sent"]
    assert (publication["group"], publication["offsetId"]) == ("PG", sent.offset_message_id)
    assert publication["storeHost"] == world.brokers["broker-a"].address


async def test_traces_lie_on_the_broker_that_has_their_topic(world: Servers) -> None:
    await world.create_topic("Traces", 1)  # before the other broker is there
    await world.start_broker("broker-b")
    await world.create_topic("T", 2)
    async with world.client(trace="Traces") as client, client.producer() as producer:
        sent = [await producer.send("T", b"x") for _ in range(8)]
    assert {result.queue.broker_name for result in sent} == {"broker-a", "broker-b"}
    async with world.client() as client, client.pull_consumer("g", begin=FIRST) as consumer:
        queues = await consumer.queues("Traces")
        await consumer.assign(queues)
        assert {queue.broker_name for queue in queues} == {"broker-a"}
        assert await consumer.poll(10)


async def test_a_broker_that_wants_no_traces_gets_none(world_with: NewWorld) -> None:
    world = await world_with(trace_on=False)
    await world.create_topic("T", 1)
    done = asyncio.Event()

    async def handle(msg: Received) -> None:
        done.set()

    async with world.client(trace=True) as client, client.producer() as producer:
        sent = await producer.send("T", "hello")
        async with client.push_consumer("T", handle, group="G", begin=FIRST):
            await done.wait()
    async with world.client() as client:
        with suppress(TopicNotFound):  # no trace ever made it, unless its broker makes it at its start
            assert await client.traces(sent.message_id) == []


def test_a_name_that_is_no_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="trace: "):
        ClientConfig(name_servers=("a:1",), trace="no topic")


# --- on virtual time --------------------------------------------------------------------------------------------------


def traces(cluster: Cluster) -> list[Traced]:
    """The scripted broker keeps bodies as they came: large ones are compressed."""
    bodies = [message.body for message in cluster.brokers["a"].queues.get((TRACE_TOPIC, 0), [])]
    plain = [decompress(body, Compression.ZLIB) if body[:1] == b"\x78" else body for body in bodies]
    return [event for body in plain for event in decode_trace(body)]


def tracer_of(client: Client) -> Any:
    return client._tracer


async def test_traces_are_written_after_half_a_second(cluster: Cluster) -> None:
    cluster.broker(T=1, RMQ_SYS_TRACE_TOPIC=1)
    client = await cluster.client(trace=True)
    async with client.producer() as producer:
        sent = await producer.send("T", "x")
        assert not traces(cluster)
        await cluster.clock.advance(0.6)
        await turns_until(lambda: bool(traces(cluster)))
    assert [one.message_id for one in traces(cluster)] == [sent.message_id]


async def test_a_failed_send_is_traced_and_raised(cluster: Cluster) -> None:
    broker = cluster.broker(T=1, RMQ_SYS_TRACE_TOPIC=1)
    client = await cluster.client(trace=True)
    answer = broker._on_310
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: (
        Reply(ResponseCode.NO_PERMISSION, "no") if request.command.fields["b"] == "T" else answer(request)
    )
    async with client.producer() as producer:
        with pytest.raises(Refused):
            await producer.send("T", "x")
        await cluster.clock.advance(0.6)
        await turns_until(lambda: bool(traces(cluster)))
    (event,) = traces(cluster)
    assert isinstance(event, Sent)
    assert not event.success


async def test_a_trace_topic_that_refuses_harms_nobody(cluster: Cluster) -> None:
    broker = cluster.broker(T=1, RMQ_SYS_TRACE_TOPIC=1)
    client = await cluster.client(trace=True)
    answer = broker._on_310
    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: (
        answer(request) if request.command.fields["b"] == "T" else Reply(ResponseCode.NO_PERMISSION, "no")
    )
    async with client.producer() as producer:
        for _ in range(3):
            await producer.send("T", "x")
        await cluster.clock.advance(0.6)
        await turns_until(lambda: tracer_of(client).lost == 3)
        await producer.send("T", "y")


async def test_a_trace_topic_that_is_silent_delays_nobody(cluster: Cluster) -> None:
    """Virtual time passes only for the trace that waits; sends are answered without it."""
    broker = cluster.broker(T=1, RMQ_SYS_TRACE_TOPIC=1)
    client = await cluster.client(trace=True)
    answer, silence = broker._on_310, asyncio.Event()

    async def never() -> Reply:
        await silence.wait()
        return Reply()

    broker.script[RequestCode.SEND_MESSAGE_V2] = lambda request: (
        answer(request) if request.command.fields["b"] == "T" else never()
    )
    async with client.producer() as producer:
        for _ in range(2 * MESSAGE_EVENTS):
            await producer.send("T", "x")
        assert len(broker.queues["T", 0]) == 2 * MESSAGE_EVENTS
    assert tracer_of(client).written == 0
    silence.set()


async def test_many_events_share_messages_and_what_is_too_much_is_dropped(cluster: Cluster) -> None:
    cluster.broker(T=1, RMQ_SYS_TRACE_TOPIC=1)
    client = await cluster.client(trace=True)
    tracer = tracer_of(client)
    async with client.producer() as producer:
        sent = await producer.send("T", "x")
        (event,) = tracer._events
        assert event.message_id == sent.message_id
        for _ in range(KEPT_EVENTS + 4):
            tracer.note(event)
        assert tracer.lost == 5
        await turns_until(lambda: tracer.written == KEPT_EVENTS)
    assert len(traces(cluster)) == KEPT_EVENTS
    assert len(cluster.brokers["a"].queues[TRACE_TOPIC, 0]) == KEPT_EVENTS // MESSAGE_EVENTS
