"""Calls of strangers: judged by their headers, before anything of their messages is taken or unpacked."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel.http2 import PREFACE, MessageArrived
from pyromq.protocol.grpc import v2
from pyromq.transport.http2.connection import Http2Connection
from pyromq.transport.http2.frame_guard import HeadFirst
from tests.access.matrix import ON, SUPER
from tests.access.test_grpc_calls import credentials
from tests.broker.running import Running, running_broker
from tests.broker.test_grpc_port import one_message, ports

SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"
WHO = [("x-mq-client-id", "me"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.0.0")]


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How large the messages were that sessions handed on."""
    sizes: list[int] = []
    take = Http2Connection._message_came

    def watched(connection: Http2Connection, event: MessageArrived) -> None:
        sizes.append(len(event.message))
        take(connection, event)

    monkeypatch.setattr(Http2Connection, "_message_came", watched)
    return sizes


async def send(channel: grpc.aio.Channel, metadata: list[tuple[str, str]], body: bytes, *, packed: bool = False) -> int:
    request = one_message("T")
    request.messages[0].body = body
    method = channel.unary_unary(SEND, request_serializer=lambda one: one.SerializeToString())
    how = grpc.Compression.Gzip if packed else None
    answer = await method(request, metadata=WHO + metadata, timeout=20, compression=how)
    return int(v2.SendMessageResponse.FromString(answer).status.code)


def calling(broker: Running) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(ports(broker.broker)["grpc"])


def seen(broker: Running) -> dict[str, int]:
    strangers = broker.broker.listeners.servers[0].strangers
    assert strangers is not None
    return dict(strangers.refused) | {"connections": strangers.connections}


@pytest.mark.parametrize("packed", [False, True])
async def test_nothing_of_a_stranger_s_message_is_taken(tmp_path: Path, arrived: list[int], packed: bool) -> None:
    async with running_broker(tmp_path, grpc_server_port=0, **ON) as broker, calling(broker) as channel:
        for metadata in ([], credentials(SUPER, "guessed")):
            for size in (10, 3 << 20):
                assert await send(channel, metadata, bytes(size), packed=packed) == v2.Code.UNAUTHORIZED
        assert arrived == []
        assert seen(broker)["connections"] == 1
        large = random.Random(1).randbytes(3 << 20)
        code = await send(channel, credentials(SUPER), large, packed=packed)  # the first one may be large
        assert code != v2.Code.UNAUTHORIZED
        assert len(arrived) == 1
        assert arrived[0] > 3 << 20
        assert seen(broker)["connections"] == 0
        assert await send(channel, [], b"x") == v2.Code.UNAUTHORIZED  # each call is judged all the same


async def test_many_refused_calls_end_a_session(tmp_path: Path) -> None:
    settings = ON | {"stranger_refusals": 3}
    async with running_broker(tmp_path, grpc_server_port=0, **settings) as broker, calling(broker) as channel:
        for _ in range(2):
            assert await send(channel, [], b"x") == v2.Code.UNAUTHORIZED
        with pytest.raises(grpc.aio.AioRpcError):
            await send(channel, [], b"x")
        assert seen(broker)["stranger_refusals"] == 1


async def test_a_session_that_calls_nothing_has_little_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path, grpc_server_port=0, stranger_seconds=1, **ON) as broker:
        host, _, port = ports(broker.broker)["grpc"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + b"\0\0\0\4\0\0\0\0\0")  # an empty SETTINGS
        while await reader.read(1 << 16):
            pass
        assert seen(broker) == {"stranger_seconds": 1, "connections": 0}
        writer.close()


FRAMES = st.lists(st.tuples(st.sampled_from([0, 1, 3, 4, 9]), st.binary(max_size=20)), max_size=8)


@given(FRAMES, st.lists(st.integers(0, 300), max_size=6))
def test_a_piece_ends_behind_each_list_of_headers(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data, ends = PREFACE, set[int]()
    for kind, payload in frames:
        data += len(payload).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 1]) + payload
        if kind in (1, 9):
            ends.add(len(data))
    head_first, at, found = HeadFirst(), 0, set[int]()
    joined = b""
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for begin, end in pairwise(places):
        for piece in head_first.pieces(data[begin:end]):
            joined += bytes(piece)
            at += len(piece)
            found.add(at)
    assert joined == data
    assert ends <= found
