"""The classic mistake with Java clients: two members of one group that want other tags. Both are named."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from . import wire
from .conftest import OwnCluster
from .peers import java
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # long waits: make interop

GetClient = Callable[..., java.Client]
INSPECT = 30_001
GET_CONSUMER_CONNECTIONS = 203
UPDATE_CONFIG = 25
TAGS = ("tag1", "tag2", "tag3")


@pytest.fixture(params=["5.5.0", "4.9.8"])
def client(request: pytest.FixtureRequest, java_client: GetClient) -> java.Client:
    return java_client(request.param, binary_headers=request.param == "4.9.8")


def conflicts(own: OwnCluster, group: str, kind: str = "conflicts") -> list[str]:
    found: list[str] = json.loads(wire.ask(own.broker.address, INSPECT).body)[kind]
    return [one for one in found if one.startswith(f"group {group}: ")]


def members(own: OwnCluster, group: str) -> list[str]:
    answer = wire.ask(own.broker.address, GET_CONSUMER_CONNECTIONS, {"consumerGroup": group})
    if answer.code != 0:
        return []
    table: dict[str, Any] = wire.json_with_bare_keys(answer.body)
    return [one["clientId"] for one in table["connectionSet"]]


def test_members_that_want_other_tags_are_named(client: java.Client, own: OwnCluster) -> None:
    topic = own.new_topic(queues=4)
    group = f"GID_{topic}"
    with client.consuming("push", own.servers, topic, group, tags="tag1 || tag2") as first:
        eventually(lambda: len(members(own, group)) == 1, "the first member is known")
        assert conflicts(own, group) == []
        with client.consuming("push", own.servers, topic, group, tags="tag3") as second:
            eventually(lambda: len(members(own, group)) == 2, "the second member is known")
            (told,) = eventually(lambda: conflicts(own, group), "the conflict is listed")
            both = members(own, group)
            assert all(name in told for name in both), told
            assert f"{topic}: tag1 || tag2" in told
            assert f"{topic}: tag3" in told
            status = wire.ask(own.broker.address, GET_CONSUMER_CONNECTIONS, {"consumerGroup": group})
            assert status.remark.startswith("CONFLICT: ")
            assert all(name in status.remark for name in both)
            assert f"group {group}: " in own.broker.program.tail(200)
            eventually(lambda: len(first.owned()) == len(second.owned()) == 2, "each has two queues")
            # The newest subscription counts for all: whoever was given queues last gets its tags out of its own
            # two queues, and the rest is lost to the group, which is what the warning is about. While the clients
            # still tell the broker who was last, all of a round may be lost: then one more.
            rounds = itertools.count()

            def send_a_round() -> list[str]:
                number = next(rounds)
                for tag in TAGS:
                    bodies = [f"{tag} {number}.{n}" for n in range(10)]
                    sent = client.send_by("sync", own.servers, topic, bodies, tag=tag)
                    assert {one["status"] for one in sent} == {"SEND_OK"}
                return first.bodies() + second.bodies()

            eventually(send_a_round, "one of them receives something")
            assert {one["tag"] for one in first.received()} <= {"tag1", "tag2"}
            assert {one["tag"] for one in second.received()} <= {"tag3"}
            assert len({*first.bodies(), *second.bodies()}) < 30 * next(rounds)
        eventually(lambda: conflicts(own, group) == [], "the conflict is over with the second member")


@pytest.fixture
def refusing(own: OwnCluster) -> Iterator[None]:
    def change(value: str) -> None:
        with wire.Client(own.broker.address) as admin:
            answer = admin.call(UPDATE_CONFIG, body=f"refuseConflictingSubscriptions={value}\n".encode())
        assert answer.code == 0, answer.remark

    change("true")
    yield
    change("false")


def test_the_newcomer_may_be_refused(client: java.Client, own: OwnCluster, refusing: None) -> None:
    topic = own.new_topic(queues=4)
    group = f"GID_{topic}"
    bodies = [f"m{number}" for number in range(10)]
    with client.consuming("push", own.servers, topic, group, tags="tag1") as first:
        eventually(lambda: len(members(own, group)) == 1, "the first member is known")
        with client.consuming("push", own.servers, topic, group, tags="tag3"):
            client.send_by("sync", own.servers, topic, bodies, tag="tag1")
            eventually(lambda: len(first.bodies()) == 10, "the first member has all queues and receives all")
            assert len(members(own, group)) == 1
            assert conflicts(own, group) == []
            (refused,) = eventually(lambda: conflicts(own, group, "refusedConsumers"), "the refused one is listed")
            assert members(own, group)[0] in refused
            assert f"{topic}: tag3" in refused
