"""Our gateway before Apache's broker: sends, receives, acks, changes, dead letters, order, transactions, recall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code, MessageType
from tests.gateway.running import Caller, consumer, gateway_before, producer
from tests.proxy.calling import message

from . import wire
from .conftest import needed
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # a Java broker: make interop

SETTINGS = {
    "recallMessageEnable": "true",
    "timerWheelEnable": "true",
    "transactionCheckInterval": "2000",
    "transactionTimeOut": "1000",
}
TOPICS = {"GwNormal": "NORMAL", "GwFifo": "FIFO", "GwTx": "TRANSACTION", "GwDelay": "DELAY", "GwDead": "NORMAL"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server of ours with a broker of Apache's."""
    needed(java.runtime)
    server = ours.NameServer(tmp_path_factory.mktemp("gateway-names"))
    broker = java.Broker("5.5.0", tmp_path_factory.mktemp("gateway-broker"), [server.address], SETTINGS)
    for topic, kind in TOPICS.items():
        wire.create_topic(broker.address, topic, 1, f"+message.type={kind}")
    wire.create_group(broker.address, "gw-fifo", in_order=True)
    wire.create_group(broker.address, "gw-dead", retries=1)
    try:
        eventually(
            lambda: all(wire.ask(server.address, wire.GET_ROUTE, {"topic": topic}).code == 0 for topic in TOPICS),
            "routes of the topics",
        )
        yield server.address
    finally:
        broker.kill()
        server.kill()


async def received(client: Caller, topic: str, group: str, invisible_s: int = 30) -> list[v2.Message]:
    """What comes, however many polls that takes."""
    for _ in range(8):
        if found := await client.receive(topic, group, invisible_s):
            return found
    return []


async def test_messages_are_sent_received_and_acknowledged(names: str) -> None:
    async with gateway_before(names) as gateway:
        client = Caller(gateway)
        route = await client.ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="GwFifo")))
        assert list(route.message_queues[0].accept_message_types) == [MessageType.FIFO]
        assert (await client.send("GwNormal", b"wrong", message_group="g")).status.code == 40014
        assert (await client.say(consumer("gw-plain", "GwNormal"))).status.code == Code.OK
        for body in (b"0", b"1", b"2"):
            assert (await client.send("GwNormal", body)).status.code == Code.OK
        found = await received(client, "GwNormal", "gw-plain")
        assert [one.body for one in found] == [b"0", b"1", b"2"]
        assert await client.ack("gw-plain", found[0]) == Code.OK
        change = v2.ChangeInvisibleDurationRequest(
            group=v2.Resource(name="gw-plain"),
            topic=found[1].topic,
            receipt_handle=found[1].system_properties.receipt_handle,
        )
        change.invisible_duration.FromSeconds(60)
        changed = await client.ask("ChangeInvisibleDuration", change)
        found[1].system_properties.receipt_handle = changed.receipt_handle
        assert await client.ack("gw-plain", *found[1:]) == Code.OK
        assert await client.receive("GwNormal", "gw-plain") == []
        await client.close()


async def test_a_group_in_order_gets_one_block_at_a_time(names: str) -> None:
    async with gateway_before(names) as gateway:
        client = Caller(gateway)
        told = await client.say(consumer("gw-fifo", "GwFifo"))
        assert told.settings.subscription.fifo
        for body in (b"0", b"1"):
            assert (await client.send("GwFifo", body, message_group="g")).status.code == Code.OK
        found = await received(client, "GwFifo", "gw-fifo")
        assert [one.body for one in found] == [b"0", b"1"]
        assert found[0].system_properties.receipt_handle.split(" ")[3] == "999"
        assert await client.ack("gw-fifo", *found) == Code.OK
        await client.close()


async def test_transactions_and_their_orphans(names: str) -> None:
    async with gateway_before(names) as gateway:
        client = Caller(gateway)
        await client.say(producer("GwTx"))
        assert (await client.send("GwTx", b"orphan", message_type=MessageType.TRANSACTION)).status.code == Code.OK
        command = (await client.heard()).recover_orphaned_transaction_command
        assert command.message.body == b"orphan"
        end = v2.EndTransactionRequest(
            topic=v2.Resource(name="GwTx"),
            message_id=command.message.system_properties.message_id,
            transaction_id=command.transaction_id,
            resolution=v2.TransactionResolution.COMMIT,
            source=v2.TransactionSource.SOURCE_SERVER_CHECK,
        )
        assert (await client.ask("EndTransaction", end)).status.code == Code.OK
        await client.say(consumer("gw-tx", "GwTx"))
        assert [one.body for one in await received(client, "GwTx", "gw-tx")] == [b"orphan"]
        await client.close()


async def test_dead_letters_and_recall(names: str) -> None:
    async with gateway_before(names) as gateway:
        client = Caller(gateway)
        await client.say(consumer("gw-dead", "GwDead"))
        await client.send("GwDead", b"dead")
        (found,) = await received(client, "GwDead", "gw-dead")
        forward = v2.ForwardMessageToDeadLetterQueueRequest(
            group=v2.Resource(name="gw-dead"),
            topic=found.topic,
            receipt_handle=found.system_properties.receipt_handle,
            message_id=found.system_properties.message_id,
        )
        answer = await client.ask("ForwardMessageToDeadLetterQueue", forward)
        assert (answer.status.code, answer.status.message) == (Code.OK, "0")
        sent = message("GwDelay", b"later")
        sent.system_properties.delivery_timestamp.FromMilliseconds(gateway.services.clock.now_ms() + 3_600_000)
        entry = (await client.ask("SendMessage", v2.SendMessageRequest(messages=[sent]))).entries[0]
        recall = v2.RecallMessageRequest(topic=v2.Resource(name="GwDelay"), recall_handle=entry.recall_handle)
        recalled = await client.ask("RecallMessage", recall)
        assert (recalled.status.code, recalled.message_id) == (Code.OK, sent.system_properties.message_id)
        await client.close()
