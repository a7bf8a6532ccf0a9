"""A task's own connection, against a peer in the test's hand: signatures, answers in any order, what breaks."""

from __future__ import annotations

import asyncio
import base64
import hmac
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.client.errors import TopicNotFound
from pyromq.errors import CallTimedOut, ConfigError, ConnectionLost, ProtocolError
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame_head
from pyromq.protocol.requests import RequestCode
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.connect.connection import BlockingConnection
from pyromq.spark.options import NetOptions, Use, connection_options
from tests.client.world import World
from tests.wire import FrameDecoder

PLAIN = {"nameServer": "127.0.0.1:1", "callTimeoutMs": "2000"}


def options(**more: str) -> NetOptions:
    return connection_options(PLAIN | more, Use.BATCH)


@contextmanager
def peer() -> Iterator[tuple[str, list[socket.socket]]]:
    """An address, and who connected there."""
    came: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        taking = threading.Thread(target=lambda: came.append(server.accept()[0]))
        taking.start()
        host, port = server.getsockname()
        yield f"{host}:{port}", came
        taking.join(10)
    for each in came:
        each.close()


def received(of: socket.socket) -> Command:
    decoder = FrameDecoder()
    while True:
        found = decoder.feed(of.recv(65536))
        if found:
            return found[0]


def wait_for(came: list[socket.socket]) -> socket.socket:
    while not came:
        threading.Event().wait(0.01)
    return came[0]


def test_requests_are_signed_with_fields_and_body() -> None:
    with peer() as (address, came):
        connection = BlockingConnection(address, options(accessKey="me", secretKey="quiet", securityToken="today"))
        connection.send(Command(code=RequestCode.SEND_BATCH_MESSAGE, fields={"b": "2", "a": "1"}), b"body")
        found = received(wait_for(came))
        connection.close()
    signature = found.fields.pop("Signature")
    assert found.fields == {"AccessKey": "me", "SecurityToken": "today", "a": "1", "b": "2"}
    expected = hmac.new(b"quiet", b"metoday12body", "sha1").digest()
    assert base64.b64decode(signature) == expected
    assert bytes(found.body) == b"body"


@pytest.mark.parametrize("given", [{"accessKey": "me"}, {"secretKey": "quiet"}, {"securityToken": "today"}])
def test_half_a_key_is_told(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="accessKey, secretKey: they belong together"):
        options(**given)


def test_requests_of_the_peer_are_passed_over_and_a_bad_frame_is_told() -> None:
    with peer() as (address, came):
        connection = BlockingConnection(address, options())
        opaque = connection.send(Command(code=11))
        other = wait_for(came)
        other.sendall(encode_frame_head(Command(code=40), 0))  # a notice, which is none of ours
        other.sendall(encode_frame_head(Command(code=0, flag=1, opaque=opaque), 3) + b"abc")
        answer = connection.receive()
        assert (answer.opaque, bytes(answer.body), connection.outstanding) == (opaque, b"abc", 0)
        assert connection.is_fresh()
        other.sendall(b"\0\0\0\4\0\0\0\x63")
        with pytest.raises(ProtocolError, match="a frame of 4 bytes with a header of 99"):
            connection.receive()
        connection.close()


def test_silence_and_an_end_are_told_apart() -> None:
    with peer() as (address, came):
        connection = BlockingConnection(address, options(callTimeoutMs="50"))
        connection.send(Command(code=11))
        with pytest.raises(CallTimedOut, match=r"did not answer within 0\.05 s"):
            connection.receive()
        wait_for(came).close()
        with pytest.raises(ConnectionLost, match=r"closed the connection|ended"):
            connection.receive()
        assert not connection.is_fresh()
        connection.close()


def test_nobody_there_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ConnectionLost, match=f"no connection to {address}"):
        BlockingConnection(address, options(connectTimeoutMs="500"))


async def test_rows_of_a_topic_that_is_not_there_yet_find_it_on_all_brokers(tmp_path: Path) -> None:
    """Else each task's first request makes it on one broker, and tasks that see it there alone have other queues."""
    world = World(tmp_path, spread_auto_created_topics=False)
    await world.start_name_server()
    for name in ("broker-a", "broker-b"):
        await world.start_broker(name)
    there = options(nameServer=next(iter(world.name_servers)))

    def routes() -> list[set[str]]:
        with Cluster(there) as cluster:
            asked = cluster.route_to_write("fresh", make=False)
            assert {*asked.writers} == {"broker-a", "broker-b"}
            with pytest.raises(TopicNotFound):  # a dry run asks, and makes nothing
                cluster.route("fresh")
            return [{*cluster.route_to_write("fresh", make=True).writers}, {*cluster.route("fresh").writers}]

    try:
        assert await asyncio.to_thread(routes) == [{"broker-a", "broker-b"}] * 2
    finally:
        await world.close()
