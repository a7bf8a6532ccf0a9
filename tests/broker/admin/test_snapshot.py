"""The picture that a dashboard follows (30008): everything once, then what has changed, and names that went."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.own import SnapshotAnswer
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher
from tests.broker.running import Running, running_broker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, clock) as running:
        group = json.dumps({"groupName": "G"}).encode()
        assert (await running.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)).code == 0
        yield running


async def picture(broker: Running, clock: ManualClock, before: SnapshotAnswer | None = None) -> SnapshotAnswer:
    await clock.advance(2)
    known: dict[str, Any] = {} if before is None else {"life": before.life, "since": before.number}
    answer = await broker.call(RequestCode.SNAPSHOT, **known)
    assert answer.code == 0, answer.remark
    return decode_body(SnapshotAnswer, answer.body)


async def commit(broker: Running, offset: int) -> None:
    where = {"consumerGroup": "G", "topic": "T", "queueId": 0}
    answer = await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, b"", **where, commitOffset=offset)
    assert answer.code == 0, answer.remark


async def test_lag_is_counted_from_the_first_message_and_told_with_its_age(broker: Running, clock: ManualClock) -> None:
    sent_ms = clock.now_ms()
    for _ in range(5):
        await broker.send()
    await commit(broker, 2)
    found = await picture(broker, clock)
    pair, topic = found.pairs["T@G"], found.topics["T"]
    assert (pair.lag, pair.committed, pair.queues, pair.queues_behind) == (3, 2, 4, 1)
    assert sent_ms <= pair.oldest_ms <= clock.now_ms()
    assert (topic.first, topic.end, found.put_total) == (0, 5, 5)
    assert topic.bytes > 0
    await commit(broker, 5)
    later = await picture(broker, clock, found)
    assert later.number > found.number, later
    assert (later.pairs["T@G"].lag, later.pairs["T@G"].oldest_ms) == (0, 0)


async def test_who_asks_again_is_told_what_has_changed(broker: Running, clock: ManualClock) -> None:
    await broker.send()
    first = await picture(broker, clock)
    assert first.since == 0
    assert "T" in first.topics
    quiet = await picture(broker, clock, first)
    assert (quiet.since, quiet.topics, quiet.pairs, quiet.groups, quiet.gone) == (first.number, {}, {}, {}, {})
    await broker.send()
    assert list((await picture(broker, clock, quiet)).topics) == ["T"]
    await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    gone = await picture(broker, clock, quiet)
    assert gone.gone == {"topics": ["T"]}
    stranger = await picture(broker, clock, msgspec.structs.replace(gone, life="another"))
    assert stranger.since == 0
    assert "T" not in stranger.topics
    assert stranger.topics


async def test_members_that_want_different_things_are_told(broker: Running, clock: ManualClock) -> None:
    other = RemotingClient(clock=clock, rng=random.Random(8), dispatch=Dispatcher({}))
    for client, name, tags in ((broker.client, "c1", "A"), (other, "c2", "B")):
        data = {"groupName": "G", "subscriptionDataSet": [{"topic": "T", "subString": tags, "subVersion": 1}]}
        body = json.dumps({"clientID": name, "consumerDataSet": [data]}).encode()
        await client.call(broker.address, Command(code=RequestCode.HEART_BEAT, body=body), 20)
    group = (await picture(broker, clock)).groups["G"]
    assert (group.members, group.mode) == (2, "CLUSTERING")
    assert len(group.conflicts) == 1
    await other.close()
