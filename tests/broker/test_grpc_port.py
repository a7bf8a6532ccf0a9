"""The gRPC port of a whole broker, by grpcio: what is sent over one protocol is read over the other."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import grpc
import pytest

from pyromq.broker.broker import Broker
from pyromq.errors import ConfigError
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.schema import RPCS
from tests.broker.running import running_broker
from tests.wire import decode_messages

METADATA = (("x-mq-client-id", "me"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.0.0"))


async def ask(address: str, name: str, request: Any) -> Any:
    rpc = RPCS[name]
    answer = getattr(v2, rpc.response)

    def call() -> Any:
        with grpc.insecure_channel(address) as channel:
            method = channel.unary_unary(rpc.path, request_serializer=lambda one: one.SerializeToString())
            return answer.FromString(method(request, metadata=METADATA, timeout=20))

    return await asyncio.to_thread(call)


def ports(broker: Broker) -> dict[str, str]:
    bound = broker.listeners.ports
    found = {"main": bound.main.address, "fast": bound.fast.address}
    return found | ({} if bound.grpc is None else {"grpc": bound.grpc.address})


def one_message(topic: str) -> v2.SendMessageRequest:
    properties = v2.SystemProperties(message_id="01ABC", message_type=v2.MessageType.NORMAL)
    message = v2.Message(topic=v2.Resource(name=topic), system_properties=properties, body=b"by gRPC")
    return v2.SendMessageRequest(messages=[message])


@pytest.mark.parametrize("port", ["grpc", "main", "fast"])
async def test_calls_are_served_on_every_port(tmp_path: Path, port: str) -> None:
    async with running_broker(tmp_path, grpc_server_port=0) as broker:
        assert (await broker.send("T", b"by remoting")).code == 0
        address = ports(broker.broker)[port]
        asked = v2.QueryRouteRequest(topic=v2.Resource(name="T"))
        route = await ask(address, "QueryRoute", asked)
        assert route.status.code == v2.Code.OK
        own = int(ports(broker.broker)["grpc"].rpartition(":")[2])
        assert {each.broker.endpoints.addresses[0].port for each in route.message_queues} == {own}
        answer = await ask(address, "SendMessage", one_message("T"))
        assert answer.status.code == v2.Code.OK
        queues = [await broker.pull("T", queue) for queue in range(4)]
        bodies = {message.body for queue in queues for message in decode_messages(queue.body)}
        assert bodies == {b"by remoting", b"by gRPC"}


async def test_without_a_port_of_its_own_the_main_one_is_told(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert "grpc" not in ports(broker.broker)
        assert (await broker.send("T")).code == 0
        route = await ask(broker.address, "QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="T")))
        told = {each.broker.endpoints.addresses[0].port for each in route.message_queues}
        assert told == {int(broker.address.rpartition(":")[2])}


async def test_a_port_that_is_asked_for_and_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} .*grpcServerPort"):
            async with running_broker(tmp_path, grpc_server_port=port, bind_address="127.0.0.1"):
                pass
