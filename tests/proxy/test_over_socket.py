"""grpcio as a client over real sockets: the whole walk, with a restart and a kill -9 of the broker in between."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import ClientType, Code, MessageType
from pyromq.proxy.methods import PATH
from tests.interop.peers import ours
from tests.interop.peers.java import free_broker_port
from tests.proxy.calling import METADATA, message

WAIT_S = 20.0


class Client:
    """One client id over one channel of grpcio."""

    def __init__(self, address: str, client_id: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self.metadata = [*(METADATA | {"x-mq-client-id": client_id}).items()]
        self._commands: queue.Queue[bytes | None] = queue.Queue()
        self.heard: Any = None

    def ask(self, method: str, request: Any, timeout: float = WAIT_S) -> Any:
        call = self.channel.unary_unary(PATH + method)
        data = call(request.SerializeToString(), metadata=self.metadata, timeout=timeout, wait_for_ready=True)
        return getattr(v2, method + "Response").FromString(data)

    def telemetry(self, settings: v2.Settings) -> v2.Settings:
        """Open the stream, or say new settings on it; what the server answers."""
        if self.heard is None:
            say = iter(self._commands.get, None)
            stream = self.channel.stream_stream(PATH + "Telemetry")
            self.heard = stream(say, metadata=self.metadata, wait_for_ready=True)
        self._commands.put(v2.TelemetryCommand(settings=settings).SerializeToString())
        return v2.TelemetryCommand.FromString(next(self.heard)).settings

    def forget_stream(self) -> None:
        self._commands.put(None)
        self._commands = queue.Queue()
        self.heard = None

    def receive(self, topic: str, group: str, invisible_s: int = 30, **more: Any) -> list[v2.Message]:
        request = v2.ReceiveMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=topic), id=-1),
            filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
            batch_size=32,
            **more,
        )
        request.invisible_duration.FromSeconds(invisible_s)
        request.long_polling_timeout.FromSeconds(5)
        call = self.channel.unary_stream(PATH + "ReceiveMessage")
        parts = call(request.SerializeToString(), metadata=self.metadata, timeout=WAIT_S, wait_for_ready=True)
        found = [v2.ReceiveMessageResponse.FromString(part) for part in parts]
        return [one.message for one in found if one.HasField("message")]

    def ack(self, group: str, *messages: v2.Message) -> int:
        entries = [
            v2.AckMessageEntry(
                message_id=one.system_properties.message_id, receipt_handle=one.system_properties.receipt_handle
            )
            for one in messages
        ]
        request = v2.AckMessageRequest(group=v2.Resource(name=group), topic=messages[0].topic, entries=entries)
        return int(self.ask("AckMessage", request).status.code)

    def close(self) -> None:
        self._commands.put(None)
        self.channel.close()


def producer_settings(*topics: str) -> v2.Settings:
    publishing = v2.Publishing(topics=[v2.Resource(name=topic) for topic in topics])
    return v2.Settings(client_type=ClientType.PRODUCER, publishing=publishing)


def consumer_settings(group: str, topic: str, kind: ClientType = ClientType.SIMPLE_CONSUMER) -> v2.Settings:
    wanted = v2.FilterExpression(type=v2.FilterType.TAG, expression="*")
    entry = v2.SubscriptionEntry(topic=v2.Resource(name=topic), expression=wanted)
    settings = v2.Settings(
        client_type=kind, subscription=v2.Subscription(group=v2.Resource(name=group), subscriptions=[entry])
    )
    settings.request_timeout.FromSeconds(3)
    return settings


class Place:
    """A name server, a broker with a gRPC port, and topics of every type."""

    def __init__(self, folder: Path) -> None:
        self.names = ours.NameServer(folder / "names")
        port = free_broker_port()
        self.grpc = f"127.0.0.1:{port}"
        settings = {"grpcServerPort": str(port), "transactionCheckInterval": "1000", "transactionTimeOut": "500"}
        self.broker = ours.Broker(folder / "broker", [self.names.address], settings, name="broker-a")
        self.make("Normal", "Fifo", "Delay", "Transaction")

    def make(self, *types: str) -> None:
        for each in types:
            arguments = ["topic", "create", f"{each}s", "-n", self.names.address, "--queues", "1"]
            done = CliRunner().invoke(cli, [*arguments, "--attr", f"+message.type={each.upper()}"])
            assert done.exit_code == 0, done.output

    def close(self) -> None:
        self.broker.kill()
        self.names.kill()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("grpc"))
    yield made
    made.close()


@pytest.fixture
def client(place: Place, request: pytest.FixtureRequest) -> Iterator[Client]:
    made = Client(place.grpc, request.node.name)
    yield made
    made.close()


def test_the_whole_walk(place: Place, client: Client) -> None:
    route = client.ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="Normals")))
    assert [queue.broker.name for queue in route.message_queues] == ["broker-a"]
    assert route.message_queues[0].broker.endpoints.addresses[0].port == int(place.grpc.rpartition(":")[2])
    told = client.telemetry(producer_settings("Normals"))
    assert told.publishing.max_body_size == 4 << 20
    assert client.ask("Heartbeat", v2.HeartbeatRequest(client_type=ClientType.PRODUCER)).status.code == Code.OK
    bodies = [b"%d" % number for number in range(5)]
    sent = client.ask("SendMessage", v2.SendMessageRequest(messages=[message("Normals", body) for body in bodies]))
    assert [entry.offset for entry in sent.entries] == [0, 1, 2, 3, 4]
    client.telemetry(consumer_settings("walkers", "Normals"))
    received = client.receive("Normals", "walkers")
    assert [one.body for one in received] == bodies
    assert client.ack("walkers", *received) == Code.OK
    done = client.ask("NotifyClientTermination", v2.NotifyClientTerminationRequest(group=v2.Resource(name="walkers")))
    assert done.status.code == Code.OK


def test_heartbeats_of_a_client_that_says_nothing_new(place: Place, client: Client) -> None:
    consumers = v2.HeartbeatRequest(group=v2.Resource(name="beaters"), client_type=ClientType.SIMPLE_CONSUMER)
    assert client.ask("Heartbeat", consumers).status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    client.telemetry(consumer_settings("beaters", "Normals"))
    statuses = [client.ask("Heartbeat", consumers).status for _ in range(50)]
    assert [(one.code, one.message) for one in statuses] == [(Code.OK, "OK")] * 50
    illegal = v2.HeartbeatRequest(group=v2.Resource(name="no group"))
    assert client.ask("Heartbeat", illegal).status.code == Code.ILLEGAL_CONSUMER_GROUP
    assert client.ask("Heartbeat", consumers).status.code == Code.OK


def test_a_restart_and_a_kill_lose_and_repeat_nothing(place: Place, client: Client) -> None:
    client.telemetry(producer_settings("Normals"))
    client.telemetry(consumer_settings("stayers", "Normals"))
    client.receive("Normals", "stayers")  # what earlier tests sent
    for body in (b"stop", b"kill", b"left"):
        client.ask("SendMessage", v2.SendMessageRequest(messages=[message("Normals", body)]))
    taken = client.receive("Normals", "stayers", invisible_s=600)
    assert [one.body for one in taken] == [b"stop", b"kill", b"left"]
    assert client.ack("stayers", taken[0]) == Code.OK
    place.broker.stop()
    place.broker.restart()
    client.forget_stream()
    client.telemetry(consumer_settings("stayers", "Normals"))
    assert client.receive("Normals", "stayers") == []  # they are invisible still
    assert client.ack("stayers", taken[1]) == Code.OK
    place.broker.kill()
    place.broker.restart()
    client.forget_stream()
    client.telemetry(consumer_settings("stayers", "Normals"))
    assert client.receive("Normals", "stayers") == []
    back = v2.ChangeInvisibleDurationRequest(
        group=v2.Resource(name="stayers"),
        topic=taken[2].topic,
        receipt_handle=taken[2].system_properties.receipt_handle,
        message_id=taken[2].system_properties.message_id,
    )
    assert client.ask("ChangeInvisibleDuration", back).status.code == Code.OK
    (again,) = client.receive("Normals", "stayers")
    assert (again.body, again.system_properties.delivery_attempt) == (b"left", 2)
    assert client.ack("stayers", again) == Code.OK


def test_orphaned_transactions_are_asked_about(place: Place, client: Client) -> None:
    client.telemetry(producer_settings("Transactions"))
    half = message("Transactions", b"half", message_type=MessageType.TRANSACTION)
    sent = client.ask("SendMessage", v2.SendMessageRequest(messages=[half]))
    assert sent.status.code == Code.OK
    command = v2.TelemetryCommand.FromString(next(client.heard)).recover_orphaned_transaction_command
    assert command.message.body == b"half"
    end = v2.EndTransactionRequest(
        topic=v2.Resource(name="Transactions"),
        message_id=command.message.system_properties.message_id,
        transaction_id=command.transaction_id,
        resolution=v2.TransactionResolution.COMMIT,
        source=v2.TransactionSource.SOURCE_SERVER_CHECK,
    )
    assert client.ask("EndTransaction", end).status.code == Code.OK
    client.telemetry(consumer_settings("committed", "Transactions"))
    (received,) = client.receive("Transactions", "committed")
    assert received.body == b"half"


def test_a_cancelled_receive_leaves_the_message_to_others(place: Place, client: Client) -> None:
    client.telemetry(consumer_settings("cancellers", "Fifos"))
    request = v2.ReceiveMessageRequest(
        group=v2.Resource(name="cancellers"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="Fifos"), id=-1),
        batch_size=1,
    )
    request.invisible_duration.FromSeconds(600)
    request.long_polling_timeout.FromSeconds(20)
    call = client.channel.unary_stream(PATH + "ReceiveMessage")
    waiting = call(request.SerializeToString(), metadata=client.metadata, timeout=30)
    client.ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="Fifos")))  # behind it, on one connection
    waiting.cancel()
    sent = message("Fifos", b"for another", message_group="g")
    client.ask("SendMessage", v2.SendMessageRequest(messages=[sent]))
    (received,) = client.receive("Fifos", "cancellers")
    assert received.body == b"for another"


def test_the_tools_show_grpc_clients(place: Place, client: Client) -> None:
    client.telemetry(consumer_settings("shown", "Normals", ClientType.PUSH_CONSUMER))
    done = CliRunner().invoke(cli, ["group", "clients", "shown", "-n", place.names.address])
    assert done.exit_code == 0, done.output
    assert "test_the_tools_show_grpc_clients" in done.output
