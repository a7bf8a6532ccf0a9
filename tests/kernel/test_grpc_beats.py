"""A whole broker under gRPC heartbeats: what the kernel answers is what the RPC in Python answers and does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.kernel import choice
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import ClientType, Code
from tests.broker.virtual import Virtual
from tests.kernel.grpc_client import Client
from tests.kernel.grpc_served import served
from tests.support import require

CONSUMER, PRODUCER = ClientType.SIMPLE_CONSUMER, ClientType.PRODUCER
UNKNOWN_FIELD = b"\x1a\x01x"  # number 3


@pytest.fixture(autouse=True)
def native() -> None:
    require(
        choice.native_http2() is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)"
    )


def beat(group: str | None = "g", kind: ClientType = CONSUMER) -> bytes:
    request = v2.HeartbeatRequest(client_type=kind)
    if group is not None:
        request.group.name = group
    return request.SerializeToString()


def status(answer: list[bytes]) -> int:
    (message,) = answer
    return v2.HeartbeatResponse.FromString(message).status.code


async def answer_of(client: Client, request: bytes, **more: Any) -> list[object]:
    """Everything that a call is answered with: headers, message, trailers."""
    stream = client.begin("Heartbeat", request, **more)
    await client.settle()
    return client.peer.answers[stream]


RENEWALS: list[tuple[bytes, dict[str, str]]] = [
    (beat(), {}),
    (beat(), {"grpc_timeout": "3S", "x_mq_request_id": "1", "x_mq_date_time": "20261118T153105Z"}),
    (beat("other"), {"grpc_encoding": "identity"}),  # its groups are those of its settings
    (beat(kind=ClientType.PUSH_CONSUMER), {}),  # so is its kind
    (v2.HeartbeatRequest(group=v2.Resource(resource_namespace="n", name="g")).SerializeToString(), {}),
    (beat(), {"x_mq_language": "CPP"}),
]
OTHERS: list[tuple[bytes, dict[str, str]]] = [
    (beat("a group"), {}),  # not a legal name
    (beat("CID_RMQ_SYS_x"), {}),
    (beat("grün"), {}),
    (beat(" "), {}),
    (beat(""), {}),
    (beat(None), {}),
    (b"", {}),
    (beat("x" * 300), {}),
    (beat(), {"x_mq_language": "COBOL"}),
    (beat(), {"x_mq_language": ""}),
    (beat(), {"x_mq_client_id": "nobody"}),
    (beat(), {"x_mq_client_id": " "}),
    (beat(), {"grpc_timeout": "soon"}),
    (beat() + UNKNOWN_FIELD, {}),  # it is a renewal, which Python finds
    (beat() + beat("h"), {}),  # two groups are one for protobuf
    (beat()[:-3], {}),
    (b"\xff" * 9, {}),
    (b"\x0a\x03\x12\x01\xff", {}),  # no UTF-8
]


async def story(life: Virtual) -> list[Any]:
    """Answers to all of these, and what the broker knows of its clients behind each."""
    consumer, producer = Client(life), Client(life, "client-2")
    said: list[Any] = [await answer_of(consumer, beat())]  # it has sent no settings
    await consumer.consume("g", "A")
    await producer.produce("A")
    for client in (consumer, producer):
        for request, more in RENEWALS + OTHERS:
            await life.clock.advance(1)
            said += [await answer_of(client, request, **more), known(life)]
    farewell = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
    said += [await consumer.ask("NotifyClientTermination", farewell), known(life)]
    return [*said, await answer_of(consumer, beat()), known(life)]


def known(life: Virtual) -> list[tuple[object, ...]]:
    its: list[Any] = [member for group in life.broker.clients.consumers.all() for member in group.members.values()]
    its += [one for group in life.broker.producers.all().values() for one in group.values()]
    return [(one.client_id, one.seen, one.peer.address, one.peer.language) for one in its]


async def test_answers_and_clients_are_those_of_the_rpc(tmp_path: Path) -> None:
    async with served(tmp_path / "kernel") as by_kernel:
        taken = await story(by_kernel.life)
        assert by_kernel.renewed() == 2 * len(RENEWALS) + 6  # a producer's may name no group, or what is no name
    async with served(tmp_path / "rpc", by_kernel=False) as by_rpc:
        left = await story(by_rpc.life)
    for number, (one, other) in enumerate(zip(taken, left, strict=True)):
        assert one == other, number


async def test_renewals_keep_a_client_and_silence_ends_it(tmp_path: Path) -> None:
    async with served(tmp_path) as broker:
        client, life = Client(broker.life), broker.life
        await client.consume("g", "A")
        for _ in range(90):  # fifteen minutes
            await life.clock.advance(10)
            assert status(await client.ask("Heartbeat", beat())) == Code.OK
            assert [seen for _, seen, *_ in known(life)] == [life.clock.monotonic()]
        assert 86 <= broker.renewed() < 90  # the others were looked at whole
        await life.clock.advance(119)
        life.broker.clients.housekeep()
        assert life.broker.clients.consumers.find("g") is not None
        await life.clock.advance(2)
        life.broker.clients.housekeep()
        assert life.broker.clients.consumers.find("g") is None
        before = broker.renewed()
        assert status(await client.ask("Heartbeat", beat())) == Code.UNRECOGNIZED_CLIENT_TYPE
        assert broker.renewed() == before


async def test_what_a_broker_has_lost_is_made_again(tmp_path: Path) -> None:
    async with served(tmp_path) as broker:
        client, life = Client(broker.life), broker.life
        await client.consume("g", "A")
        (member,) = life.broker.clients.consumers.find("g").members  # type: ignore[union-attr]
        life.broker.clients.consumers.lose(member)
        assert status(await client.ask("Heartbeat", beat())) == Code.OK
        assert life.broker.clients.consumers.find("g") is not None
        assert broker.renewed() == 0
        life.broker.groups.delete("g")
        assert status(await client.ask("Heartbeat", beat())) == Code.OK
        assert "g" in life.broker.groups
        life.broker.topics.delete("%RETRY%g")
        assert status(await client.ask("Heartbeat", beat())) == Code.OK
        assert "%RETRY%g" in life.broker.topics
        life.broker.topics.delete("A")
        assert broker.renewed() == 0
        assert status(await client.ask("Heartbeat", beat())) == Code.OK
        assert broker.renewed() == 1


async def test_new_settings_of_the_broker_count_with_the_next_heartbeat(tmp_path: Path) -> None:
    async with served(tmp_path) as broker:
        client, life = Client(broker.life), broker.life
        await client.consume("g", "A", "B")
        assert status(await client.ask("Heartbeat", beat())) == Code.OK
        life.broker.live.change("maxSubscriptionsPerGroup=1")
        assert status(await client.ask("Heartbeat", beat())) != Code.OK
        assert broker.renewed() == 1


async def test_a_client_that_comes_from_elsewhere_is_known_by_its_new_address(tmp_path: Path) -> None:
    async with served(tmp_path) as broker:
        client = Client(broker.life)
        await client.consume("g", "A")
        again = Client(broker.life, address="10.0.0.99:777")
        assert status(await again.ask("Heartbeat", beat())) == Code.OK
        assert [address for _, _, address, _ in known(broker.life)] == ["10.0.0.99:777"]
        assert broker.renewed() == 1


async def test_a_client_whose_stream_is_lost_is_registered_by_its_heartbeat(tmp_path: Path) -> None:
    async with served(tmp_path) as broker:
        client, life = Client(broker.life), broker.life
        await client.consume("g", "A")
        client.cut()
        await life.clock.advance(100)
        assert known(life) == []
        again = Client(life)
        assert status(await again.ask("Heartbeat", beat())) == Code.OK
        assert broker.renewed() == 0
        assert [client_id for client_id, *_ in known(life)] == ["client-1"]
        assert status(await again.ask("Heartbeat", beat())) == Code.OK
        assert broker.renewed() == 1


async def test_heartbeats_do_not_wait_for_half_of_one(tmp_path: Path) -> None:
    async with served(tmp_path) as broker:
        client = Client(broker.life)
        await client.consume("g", "A")
        client.begin("Heartbeat", beat(), end=False)
        assert status(await client.ask("Heartbeat", beat())) == Code.OK
        assert broker.renewed() == 1
