"""A master that cannot be followed is said in the log, and not at each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, cast

import pytest

from pyromq.broker.elected.life import Life
from pyromq.broker.elected.member import REPEAT_S, ElectedMember
from pyromq.broker.elected.seams import FollowedStream, MasterRefuses, Timings
from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.election.set_state import SetState
from pyromq.coordination.store import Coordination
from pyromq.errors import ConnectionLost
from pyromq.testing.clock import ManualClock

STATE = SetState(epoch=7, master=2, in_sync=frozenset({1, 2, 3}), minimum=2, set_epoch=1, written_by=2, written_ms=0)


class Unconnected:
    """A life whose master is not reached."""

    fault: ConnectionLost

    async def give_way(self) -> None: ...

    async def connect(self, master: int, epoch: int) -> FollowedStream:
        raise self.fault


def spawn(part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(part)


@pytest.mark.parametrize(
    "fault", [ConnectionLost("no answer of 10.0.0.2:10912"), MasterRefuses("10.0.0.2:10912 refuses connections")]
)
async def test_it_is_said_once_a_minute_with_its_cause(fault: ConnectionLost, caplog: pytest.LogCaptureFixture) -> None:
    clock, life = ManualClock(), Unconnected()
    life.fault = fault
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
    for pause_s in (0.0, 1.0, REPEAT_S):
        await clock.advance(pause_s)
        await member.act()
        assert member.following is not None
        await member.following
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2
    assert all("the master cannot be followed now master=2 epoch=7" in line and str(fault) in line for line in said)
    assert "held_back=1" in said[1]
