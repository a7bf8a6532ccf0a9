"""Ours against what Java's own classes answered (recorded/Allocations.java), and what must hold for any input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.core.allocation import (
    Average,
    AverageByCircle,
    ConsistentHash,
    Fixed,
    MachineRoom,
    MachineRoomNearby,
    NamedStrategy,
)
from pyromq.protocol.bodies.keyed import MessageQueue

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "recorded" / "allocations.json").read_text("utf-8")
)
BROKERS = ("east@a", "east@b", "north@a", "west@a")


def _nearby(inner: NamedStrategy) -> MachineRoomNearby:
    return MachineRoomNearby(
        inner, lambda queue: queue.broker_name.partition("@")[0], lambda member: member.partition("@")[0]
    )


STRATEGIES: dict[str, NamedStrategy] = {
    each.name: each
    for each in (
        Average(),
        AverageByCircle(),
        MachineRoom(frozenset(("east", "west"))),
        _nearby(Average()),
        _nearby(AverageByCircle()),
        ConsistentHash(),
    )
}


def queues_of(brokers: int, each: int) -> list[MessageQueue]:
    return [
        MessageQueue(broker_name=name, queue_id=number, topic="Orders")
        for name in BROKERS[:brokers]
        for number in range(each)
    ]


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_as_java(name: str) -> None:
    cases = [case for case in RECORDED if case["strategy"] == name]
    assert len(cases) == 60
    for case in cases:
        queues = queues_of(case["brokers"], case["each"])
        members = list(case["taken"])
        for member in members:
            taken = STRATEGIES[name](member, queues, members)
            assert [queues.index(queue) for queue in taken] == case["taken"][member], case


@pytest.mark.parametrize("strategy", [Average(), AverageByCircle(), ConsistentHash(), _nearby(Average())])
@given(brokers=st.integers(1, 4), each=st.integers(0, 9), members=st.sets(st.text("abc@", min_size=1), min_size=1))
def test_each_queue_is_owned_once(strategy: NamedStrategy, brokers: int, each: int, members: set[str]) -> None:
    queues = queues_of(brokers, each)
    known = sorted(members)
    taken = [queue for member in known for queue in strategy(member, queues, known)]
    assert sorted(taken) == queues


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=lambda each: each.name)
def test_who_is_not_in_the_group_gets_nothing(strategy: NamedStrategy) -> None:
    assert strategy("stranger", queues_of(2, 2), ["east@1"]) == []


def test_a_fixed_list_is_that_list() -> None:
    mine = tuple(queues_of(1, 2))
    assert Fixed(mine)("me", queues_of(4, 4), ["you"]) == list(mine)
