"""A topic that is deleted and made again under a running consumer is read from its first message, as a new one is.

Offsets of the deleted topic neither skip messages of the new one nor come back by a late commit.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.consume import assignment, polled_queues, pull_loop
from pyromq.client.received import Received
from pyromq.protocol.requests import RequestCode
from tests.client.test_push_consumer import FIRST, Seen, send
from tests.client.world import Servers, turns_until

OURS = pytest.mark.own_broker("Apache's sends nobody to the first message of a topic that was made again")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "ILLEGAL_OFFSET_PAUSE_S", 0.1)
    monkeypatch.setattr(pull_loop, "ERROR_PAUSE_S", 0.1)
    monkeypatch.setattr(polled_queues, "ERROR_PAUSE_S", 0.1)


async def delete(world: Servers) -> None:
    """As `pyromq topic delete T` does."""
    for running in world.brokers.values():
        assert (await world.ask(running.address, RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
    for address in world.name_servers:
        assert (await world.ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T")).code == 0


async def committed_everything(world: Servers, count: int) -> None:
    while await world.committed("g") != count:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@OURS
@pytest.mark.parametrize("count", [5, 60], ids=["fewer", "more"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("orderly", [False, True], ids=["", "orderly"])
async def test_a_running_member_reads_the_new_topic_from_its_first_message(
    world: Servers, count: int, restarts: bool, orderly: bool
) -> None:
    await world.create_topic("T", 2)
    await send(world, 40)
    seen = Seen()
    options: dict[str, Any] = {"begin": FIRST, "orderly": orderly, "commit_s": 0.1}
    async with world.client() as client, client.push_consumer("T", seen, group="g", **options):
        await seen.count(40)
        await committed_everything(world, 40)
        await delete(world)
        if restarts:
            await world.restart_broker()
        await world.create_topic("T", 2)
        await send(world, count, start=100)
        await turns_until(lambda: {int(body) for body in seen.bodies} >= set(range(100, 100 + count)))
        await committed_everything(world, count)
    assert sorted(map(int, seen.bodies)) == [*range(40), *range(100, 100 + count)]
    assert await world.committed("g") == count


@OURS
async def test_a_group_that_was_offline_meanwhile_reads_it_from_its_first_message_too(world: Servers) -> None:
    await world.create_topic("T", 2)
    seen = Seen()
    async with world.client() as client:
        async with client.push_consumer("T", seen, group="g", commit_s=0.1):
            await send(world, 40)
            await seen.count(40)
        await delete(world)
        await world.restart_broker()
        await world.create_topic("T", 2)
        await send(world, 5, start=100)
        async with client.push_consumer("T", seen, group="g"):
            await seen.count(45)
    assert sorted(map(int, seen.bodies)) == [*range(40), *range(100, 105)]


@OURS
async def test_what_a_late_handler_of_the_old_topic_has_done_is_not_committed(world: Servers) -> None:
    """Its member had not been answered that the topic was gone, since it was busy."""
    await world.create_topic("T", 1)
    await send(world, 10)
    seen, may_end = Seen(), asyncio.Event()

    async def handle(msg: Received) -> None:
        await seen(msg)
        await may_end.wait()

    options: dict[str, Any] = {"begin": FIRST, "concurrency": 1, "commit_s": 0.1}
    async with world.client() as client, client.push_consumer("T", handle, group="g", **options) as consumer:
        await seen.count(1)
        consumer.pause()
        await delete(world)
        await world.create_topic("T", 1)
        may_end.set()
        await seen.count(10)
        await send(world, 20, start=100)
        await consumer.commit()
        assert await world.committed("g") == 0
        consumer.resume()
        await seen.count(30)
    assert sorted(map(int, seen.bodies)) == [*range(10), *range(100, 120)]
    assert await world.committed("g") == 20


async def test_a_stored_offset_beyond_the_end_begins_at_the_first_message(world: Servers) -> None:
    await world.create_topic("T", 1)
    await world.create_group("g")
    await send(world, 2)
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "7"}
    address = world.brokers["broker-a"].address
    assert (await world.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, b"", **fields)).code == 0
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g"):
        await seen.count(2)
    assert await world.committed("g") == 2


@OURS
@pytest.mark.parametrize("count", [5, 60], ids=["fewer", "more"])
async def test_a_pull_consumer_does_so_too(world: Servers, count: int) -> None:
    await world.create_topic("T", 2)
    await send(world, 40)
    async with world.client() as client, client.pull_consumer("g", begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues("T"))
        got: list[int] = []
        while len(got) < 40:
            got += [int(msg.body) for msg in await consumer.poll(timeout=1)]
        assert await consumer.poll(timeout=0.1) == []
        await delete(world)
        while any(polled.position for polled in consumer._queues.values()):  # until it has noticed it
            assert await consumer.poll(timeout=0.1) == []
        await world.create_topic("T", 2)
        await send(world, count, start=100)
        while len(got) < 40 + count:
            got += [int(msg.body) for msg in await consumer.poll(timeout=1)]
    assert sorted(got) == [*range(40), *range(100, 100 + count)]
    assert await world.committed("g") == count


@OURS
async def test_a_broadcast_member_does_so_too(world: Servers, tmp_path: Path) -> None:
    await world.create_topic("T", 2)
    await send(world, 40)
    seen = Seen()
    options: dict[str, Any] = {"broadcast": True, "offsets_folder": tmp_path / "offsets", "begin": FIRST}
    async with world.client() as client, client.push_consumer("T", seen, group="g", **options) as consumer:
        await seen.count(40)
        await delete(world)
        await turns_until(lambda: not any(each.next_offset for each in consumer.assigned.values()))
        await world.create_topic("T", 2)
        await send(world, 60, start=100)
        await seen.count(100)
    assert sorted(map(int, seen.bodies)) == [*range(40), *range(100, 160)]
