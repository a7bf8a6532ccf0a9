"""Three broker processes and a real etcd: the master is killed, another takes sends, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pyromq
from pyromq.errors import PyroError
from tests.elected.elected_set import ElectedSet, elected_set

TOPIC = "orders"
LIMIT_S = 60.0


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so: what other processes do is asked again and again."""
    async with asyncio.timeout(LIMIT_S):
        while not await is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def first_send(producer: pyromq.Producer) -> None:
    """Send until the set takes it: the master may be about to begin."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await producer.send(TOPIC, b"first")
            except PyroError:
                await asyncio.sleep(0.1)
            else:
                return


async def send_until(producer: pyromq.Producer, stop: asyncio.Event, acked: set[bytes]) -> None:
    """Send one message after the other; note which ones were acknowledged."""
    number = 0
    while not stop.is_set():
        number += 1
        body = b"%d" % number
        try:
            await producer.send(TOPIC, body)
        except PyroError:
            continue  # its outcome is unknown
        acked.add(body)


async def received(client: pyromq.Client, wanted: set[bytes]) -> set[bytes]:
    """Return what the present master has, read until all that is wanted has come."""
    found: set[bytes] = set()
    async with client.pull_consumer("reader", begin="first") as consumer, asyncio.timeout(LIMIT_S):
        await consumer.assign(await consumer.queues(TOPIC))
        while not wanted <= found:
            found |= {message.body for message in await consumer.poll(timeout=1)}
    return found


async def has_acked(acked: set[bytes], count: int) -> bool:
    return len(acked) >= count


async def kill_under_load(members: ElectedSet) -> None:
    async with pyromq.connect(members.name_server.address) as client, client.producer() as producer:
        await eventually(members.is_whole)
        await first_send(producer)
        stop, acked = asyncio.Event(), set[bytes]()
        sending = asyncio.create_task(send_until(producer, stop, acked))
        await eventually(partial(has_acked, acked, 50))
        killed = await members.master()
        await asyncio.to_thread(killed.kill)
        await eventually(partial(has_acked, acked, len(acked) + 50))
        stop.set()
        await sending
        assert (await members.master()).address != killed.address
        assert await received(client, acked) >= acked
        await asyncio.to_thread(killed.restart)  # it follows, and is a member of the set again
        await eventually(members.is_whole)


def test_another_master_takes_sends_after_a_kill_and_nothing_is_lost(tmp_path: Path) -> None:
    with elected_set(tmp_path) as members:
        asyncio.run(kill_under_load(members))
