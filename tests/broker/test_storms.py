"""A storm of one class of requests does not delay another: seen by the order in which answers leave, never by time."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from tests.broker.running import Running, running_broker

STORM = 600

KEY_QUERY = {"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": "9999999999999"}
STORMS: list[tuple[int, dict[str, str], bytes]] = [
    (RequestCode.QUERY_MESSAGE, KEY_QUERY, b""),
    (RequestCode.GET_BROKER_RUNTIME_INFO, {}, b""),
    (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, b""),
    (RequestCode.HEART_BEAT, {}, b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}'),
]


def send_command() -> Command:
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "KEYS\x01k\x02"}
    return Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields, body=b"x")


async def places(broker: Running, requests: list[Command]) -> list[int]:
    """For each request, given all at once, the place at which its answer came."""
    connection = await broker.client.connect(broker.address)
    order: list[int] = []

    async def ask(number: int, request: Command) -> None:
        await connection.call(request, 60)
        order.append(number)

    await asyncio.gather(*(ask(number, request) for number, request in enumerate(requests)))
    return [order.index(number) for number in range(len(requests))]


@pytest.mark.parametrize(("code", "fields", "body"), STORMS, ids=lambda value: getattr(value, "name", ""))
async def test_a_send_behind_a_storm_is_answered_long_before_its_end(
    tmp_path: Path, code: int, fields: dict[str, Any], body: bytes
) -> None:
    async with running_broker(tmp_path, unfinished_requests=10_000) as broker:
        for _ in range(20):
            await broker.client.call(broker.address, send_command(), 20)
        storm = [Command(code=code, fields=dict(fields), body=body) for _ in range(STORM)]
        found = await places(broker, [*storm, send_command()])
        assert found[-1] < STORM // 2


async def test_a_send_is_answered_early_while_others_storm(tmp_path: Path) -> None:
    """Key queries, statistics and heartbeats at once, from connections of their own."""
    settings: dict[str, Any] = {"unfinished_requests": 10_000, "wait_time_mills_in_send_queue": 60_000}
    async with running_broker(tmp_path, **settings) as broker, AsyncExitStack() as stack:
        for _ in range(20):
            await broker.client.call(broker.address, send_command(), 20)
        order: list[str] = []

        async def ask(client: RemotingClient, request: Command, name: str) -> None:
            await client.call(broker.address, request, 60)
            order.append(name)

        asked = []
        for number, (code, fields, body) in enumerate(STORMS):
            client = RemotingClient(clock=SystemClock(), rng=random.Random(number))
            stack.push_async_callback(client.close)
            await client.connect(broker.address)
            storm = [Command(code=code, fields=dict(fields), body=body) for _ in range(STORM)]
            asked += [ask(client, request, "storm") for request in storm]
        asked.append(ask(broker.client, send_command(), "send"))
        await asyncio.gather(*asked)
        assert order.index("send") < len(order) // 2


async def test_heartbeats_pass_a_storm_of_sends(tmp_path: Path) -> None:
    async with running_broker(tmp_path, unfinished_requests=10_000, wait_time_mills_in_send_queue=60_000) as broker:
        await broker.client.call(broker.address, send_command(), 20)
        beat = Command(code=RequestCode.HEART_BEAT, body=b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}')
        found = await places(broker, [*(send_command() for _ in range(STORM)), beat])
        assert found[-1] < STORM // 2
