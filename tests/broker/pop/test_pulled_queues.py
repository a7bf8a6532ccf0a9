"""Queues that a member pulls are popped by nobody, until it pops itself, leaves, or is silent for a minute."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.clients.pulled_queues import SILENT_S
from pyromq.broker.pop.young.aging import Aging
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Request, await_answer
from tests.broker.peers import FakePeer
from tests.broker.pop.popping import bodies, pop
from tests.broker.virtual import START_MS, Virtual, virtual_broker

PULLER, POPPER = FakePeer("127.0.0.1:50001"), FakePeer("127.0.0.1:50002")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    """Two members, and one message in each of two queues."""
    async with virtual_broker(tmp_path) as running:
        for queue in range(2):
            await running.send(body=b"%d" % queue, queue=queue, defaultTopicQueueNums=2)
        for peer in (PULLER, POPPER):
            peer.sent.clear()
            await beat(running, peer)
        yield running


async def beat(broker: Virtual, peer: FakePeer, **versions: int) -> None:
    """Say that the member subscribes to these topics."""
    broker.peer = peer
    data = {"groupName": "G", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    where = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": at} for topic, at in versions.items()]
    body = {"clientID": peer.address, "consumerDataSet": [data | where | {"subscriptionDataSet": subscriptions}]}
    assert (await broker.call(RequestCode.HEART_BEAT, json.dumps(body).encode())).code == 0


async def begin(broker: Virtual, queue: int = 0) -> Command:
    """Ask where to begin, as members do before they pull."""
    broker.peer = PULLER
    fields: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": queue}
    return await broker.call(RequestCode.QUERY_CONSUMER_OFFSET, **fields)


async def pulled(broker: Virtual, peer: FakePeer = PULLER, offset: int = 0) -> list[bytes]:
    broker.peer = peer
    return [one.body for one in await broker.pulled("T", offset=offset, group="G")]


async def popped(broker: Virtual, **extra: Any) -> list[str]:
    broker.peer = POPPER
    return sorted(bodies(await pop(broker, **extra)))


async def test_others_pop_what_is_left(broker: Virtual) -> None:
    assert (await begin(broker)).fields["offset"] == "0"
    assert await popped(broker) == ["1"]
    assert await pulled(broker) == [b"0"]
    assert await popped(broker) == []


async def test_pulls_without_a_question_count_too(broker: Virtual) -> None:
    assert await pulled(broker) == [b"0"]
    assert await popped(broker) == ["1"]


async def test_who_pops_gives_up_what_it_pulled(broker: Virtual) -> None:
    for queue in range(2):
        await begin(broker, queue)
    assert await popped(broker) == []
    broker.peer = PULLER
    assert sorted(bodies(await pop(broker, maxMsgNums=1)))
    assert len(await popped(broker)) == 1


async def test_who_leaves_gives_up_what_it_pulled(broker: Virtual) -> None:
    await begin(broker)
    broker.peer = PULLER
    fields: dict[str, Any] = {"clientID": PULLER.address, "consumerGroup": "G"}
    assert (await broker.call(RequestCode.UNREGISTER_CLIENT, **fields)).code == 0
    assert await popped(broker) == ["0", "1"]


async def test_a_lost_connection_lets_pops_go_on_that_wait(broker: Virtual) -> None:
    for queue in range(2):
        await begin(broker, queue)
    broker.peer = POPPER
    waiting = asyncio.create_task(pop(broker, pollTime=15_000, bornTime=START_MS))
    await broker.clock.settle()
    assert not waiting.done()
    broker.broker._connection_lost(PULLER)
    assert len(await waiting) == 2


async def test_what_was_given_up_without_a_word_is_free_after_a_minute(broker: Virtual) -> None:
    await begin(broker)
    await popped(broker, invisibleTime=600_000)  # the other queue's: it does not come again meanwhile
    await broker.clock.advance(SILENT_S - 1)
    assert await popped(broker) == []
    await broker.clock.advance(2)
    assert await popped(broker) == ["0"]


async def test_whoever_is_no_member_takes_no_queue(broker: Virtual) -> None:
    assert await pulled(broker, FakePeer("127.0.0.1:50003")) == [b"0"]
    assert await popped(broker) == ["0", "1"]


async def test_a_member_that_begins_to_pull_goes_on_behind_what_others_popped(broker: Virtual) -> None:
    assert await popped(broker) == ["0", "1"]
    assert (await begin(broker)).fields["offset"] == "1"
    await broker.send(body=b"2")
    assert await popped(broker) == []
    assert await pulled(broker, offset=1) == [b"2"]


@pytest.mark.parametrize("retries", ["%RETRY%G_T", "%RETRY%G+T"])
async def test_a_member_that_pulls_again_gets_what_nobody_acknowledged(broker: Virtual, retries: str) -> None:
    """As Java's do it: each rebalance subscribes to the retries anew, heartbeats are behind, and who pops ends it."""
    broker.broker.live.change(f"enableRetryTopicV2={str(retries.endswith('+T')).lower()}")
    assert await popped(broker, invisibleTime=5_000) == ["0", "1"]
    await begin(broker)
    await beat(broker, PULLER, **{"T": 1, retries: 1})
    await broker.advance(6)

    async def again(version: int) -> list[bytes]:
        broker.peer = PULLER
        found = await broker.pulled(retries, group="G", sysFlag=0, subVersion=version)
        return sorted(message.body for message in found)

    assert await again(version=2) == [b"0", b"1"]
    await beat(broker, POPPER, T=1)
    assert await again(version=2) == [b"0", b"1"]


@pytest.mark.parametrize("is_begun", [False, True])
async def test_who_loses_his_rights_while_the_queue_is_left_does_not_wait_there(
    broker: Virtual, monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    """Whether leaving has begun by then, or is to begin in the next turn."""
    left, leaving = asyncio.Event(), Aging.leave_lane

    async def leave_slowly(aging: Aging, group: str, topic: str, queue_id: int) -> None:
        await left.wait()
        await leaving(aging, group, topic, queue_id)

    monkeypatch.setattr(Aging, "leave_lane", leave_slowly)
    await popped(broker)
    broker.peer = PULLER
    fields: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": 1, "maxMsgNums": 32}
    fields |= {"sysFlag": 7, "commitOffset": 1, "suspendTimeoutMillis": 15_000, "subscription": "*", "subVersion": 0}
    texts = {name: str(value) for name, value in fields.items()}
    command = Command(code=RequestCode.PULL_MESSAGE, opaque=77, fields=texts)
    answer = broker.broker.listeners.dispatchers["main"](Request(command, PULLER, broker.clock.monotonic()))
    if is_begun:
        pulling = asyncio.ensure_future(await_answer(answer))
        await broker.clock.settle()
        broker.broker._rights_changed("somebody")
    else:
        broker.broker._rights_changed("somebody")
        pulling = asyncio.ensure_future(await_answer(answer))
    left.set()
    reply = await pulling
    assert reply is not None
    assert (reply.code, len(broker.broker.pulls.suspended)) == (ResponseCode.PULL_NOT_FOUND, 0)
