"""A master that cannot be followed is said in the log, and not at each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from pyromq.broker.elected.life import Life
from pyromq.broker.elected.member import ElectedMember
from pyromq.broker.elected.seams import FollowedStream, MasterRefuses, Timings
from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.elected.set_member import REPEAT_S
from pyromq.broker.election.set_state import SetState
from pyromq.coordination.store import Coordination
from pyromq.errors import ConnectionLost
from pyromq.testing.clock import ManualClock

STATE = SetState(epoch=7, master=2, in_sync=frozenset({1, 2, 3}), minimum=2, set_epoch=1, written_by=2, written_ms=0)


class Unconnected:
    """A life whose master is not reached: its port says so, or (`fault` None) nothing comes back at all."""

    def __init__(self, fault: ConnectionLost | None) -> None:
        self.fault = fault
        self.tried: list[tuple[int, int]] = []

    async def give_way(self) -> None: ...

    async def connect(self, master: int, epoch: int) -> FollowedStream:
        self.tried.append((master, epoch))
        if self.fault is None:
            await asyncio.Event().wait()
        raise self.fault or AssertionError


def member_of(life: Unconnected, clock: ManualClock) -> ElectedMember:
    member = ElectedMember(
        1,
        cast("Life", life),
        cast("Coordination", None),
        SetKeys("/set/"),
        clock,
        Random(1),
        spawn,
        minimum=2,
        timings=Timings(),
    )
    member.take_state(STATE, 1)
    return member


def spawn(part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(part)


@pytest.mark.parametrize(
    "fault", [ConnectionLost("no answer of 10.0.0.2:10912"), MasterRefuses("10.0.0.2:10912 refuses connections")]
)
async def test_it_is_said_once_a_minute_with_its_cause(fault: ConnectionLost, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    member = member_of(Unconnected(fault), clock)
    for pause_s in (0.0, 1.0, REPEAT_S):
        await clock.advance(pause_s)
        await member.act()
        assert member.following is not None
        await member.following
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2
    assert all("the master cannot be followed now master=2 epoch=7" in line and str(fault) in line for line in said)
    assert "held_back=1" in said[1]


async def test_a_master_that_does_not_answer_is_not_waited_for_once_another_leads() -> None:
    """Else a set whose master is cut off stands until the attempt to reach it is over."""
    life = Unconnected(None)
    member = member_of(life, ManualClock())
    await member.act()
    await asyncio.sleep(0)
    member.take_state(replace(STATE, epoch=8, master=3), 2)
    await member.act()
    first = member.following
    assert first is not None
    await asyncio.wait([first])
    await member.act()
    await asyncio.sleep(0)
    assert life.tried == [(2, 7), (3, 8)]
    await member.act()  # it is about to be followed: nothing to change
    assert member.following is not None
    assert not member.following.done()
    member.leave_master()
    await asyncio.wait([member.following])
