"""A replica of a set that a controller leads: its number, its in-sync set, and what it does not do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.elected.controlled.controllers import Controllers, NamedMaster
from pyromq.broker.elected.controlled.enrolment import CLAIM_FILE, enrol
from pyromq.broker.elected.controlled.mastership import ASK_AGAIN_S, ControlledMastership
from pyromq.broker.elected.controlled.member import ControlledMember, OwnReplica
from pyromq.broker.elected.controlled.settings import ControllerModeSettings
from pyromq.broker.elected.identity import IDENTITY_FILE, SetName
from pyromq.broker.elected.life import Life
from pyromq.broker.elected.mastership import Seat
from pyromq.broker.elected.seams import Timings
from pyromq.broker.election.set_state import SetState
from pyromq.coordination.store import ChangeOutcome, Verdict
from pyromq.errors import CallRefused, ConfigError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.headers.namesrv import BrokerHeartbeat
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.files.disk import read_if_there, replace_durably
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk

NAME = SetName("c", "a")


class ToldControllers:
    """Stands for the controllers: takes what is asked, and answers as it is told."""

    def __init__(self) -> None:
        self.next, self.is_known = 1, True
        self.codes: dict[int, str] = {}
        self.heartbeats: list[BrokerHeartbeat] = []

    async def next_id(self) -> int:
        return self.next

    async def apply_id(self, number: int, check_code: str) -> None:
        if self.codes.setdefault(number, check_code) != check_code:
            self.next = max(self.codes) + 1
            raise CallRefused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, "taken")

    async def register(self, number: int, address: str) -> None:
        if not self.is_known:
            raise CallRefused(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "unknown")

    async def heartbeat(self, seen: BrokerHeartbeat) -> None:
        self.heartbeats.append(seen)


def enrolled(controllers: ToldControllers, disk: SimulatedDisk) -> Coroutine[Any, Any, int]:
    return enrol(cast("Controllers", controllers), disk, NAME, "h:1", ManualClock())


async def test_a_number_is_kept_in_javas_file_and_another_broker_may_be_quicker() -> None:
    controllers, disk = ToldControllers(), SimulatedDisk()
    controllers.codes[1] = "another;1"
    assert await enrolled(controllers, disk) == 2
    assert read_if_there(disk, IDENTITY_FILE) == b"c#a#2"
    assert read_if_there(disk, CLAIM_FILE) is None
    assert await enrolled(controllers, disk) == 2


async def test_a_start_that_was_killed_finds_its_own_claim() -> None:
    controllers, disk = ToldControllers(), SimulatedDisk()
    controllers.codes[1], controllers.next = "h:1;5", 2
    replace_durably(disk, CLAIM_FILE, b"c#a#1#h:1;5")
    assert await enrolled(controllers, disk) == 1


async def test_a_number_that_the_controller_does_not_know_is_refused_with_what_to_do() -> None:
    controllers, disk = ToldControllers(), SimulatedDisk()
    await enrolled(controllers, disk)
    controllers.is_known = False
    with pytest.raises(ConfigError, match=r"correct controllerAddr, or move brokerIdentity away"):
        await enrolled(controllers, disk)


# --- the in-sync set --------------------------------------------------------------------------------------------------


def leading(clock: ManualClock, outcome: ChangeOutcome) -> tuple[ControlledMastership, list[frozenset[int]]]:
    """Return a master of epoch 3 whose set has replica 2, with what it asked for."""
    asked: list[frozenset[int]] = []

    async def ask(state: SetState, version: int) -> ChangeOutcome:
        asked.append(state.in_sync)
        return outcome

    async def nothing() -> None: ...

    life = SimpleNamespace(end=100, synced=100, readable=100, acks_synced=False, sync=nothing)
    seat = Seat(
        me=1,
        life=cast("Life", life),
        ask=ask,
        clock=clock,
        timings=Timings(silence_s=15.0),
        take_state=lambda state, version: master.settle(state, version),
        learn=nothing,
    )
    state = SetState(epoch=3, master=1, in_sync=frozenset({1, 2}), minimum=1)
    master = ControlledMastership(seat, state, 7)
    master.begin_stream(2)
    master.note_report(2, 100)
    return master, asked


async def test_a_replica_that_says_nothing_and_lacks_nothing_stays() -> None:
    clock = ManualClock()
    master, asked = leading(clock, ChangeOutcome(Verdict.DONE, 8))
    await clock.advance(60.0)
    await master.tend_set()
    assert asked == []


async def test_a_replica_that_does_not_catch_up_leaves_after_its_time() -> None:
    clock = ManualClock()
    master, asked = leading(clock, ChangeOutcome(Verdict.DONE, 8))
    cast("Any", master.seat.life).end = cast("Any", master.seat.life).synced = 200
    master.note_own(200, 200)
    await clock.advance(14.0)
    await master.tend_set()
    assert (asked, master.confirmed) == ([], 100)
    await clock.advance(2.0)
    await master.tend_set()
    assert asked == [frozenset({1})]
    assert master.confirmed == 200


async def test_nothing_is_acknowledged_alone_before_the_controller_has_taken_a_replica_out() -> None:
    clock = ManualClock()
    master, asked = leading(clock, ChangeOutcome(Verdict.UNKNOWN))
    master.end_stream(2)
    await clock.advance(2.0)
    master.note_own(200, 200)
    cast("Any", master.seat.life).synced = 200
    await master.tend_set()
    assert asked == [frozenset({1})]
    assert master.confirmed == 100
    await master.tend_set()
    assert len(asked) == 1  # not again at once
    await clock.advance(ASK_AGAIN_S)
    await master.tend_set()
    assert len(asked) == 2


async def test_a_replica_whose_addition_is_refused_is_not_waited_for() -> None:
    clock = ManualClock()
    master, asked = leading(clock, ChangeOutcome(Verdict.CONFLICT))
    master.begin_stream(3)
    master.note_report(3, 100)
    await master.tend_set()
    assert asked == [frozenset({1, 2, 3})]
    assert master.acting.members == {1, 2}


# --- roles ------------------------------------------------------------------------------------------------------------


class ListedLife:
    """A log with epochs; nothing is served."""

    end, readable = 100, 100

    def __init__(self, *epochs: MasterEpoch) -> None:
        self.epochs = EpochList(epochs)

    async def give_way(self) -> None: ...


def member_of(life: ListedLife, controllers: ToldControllers, clock: ManualClock) -> ControlledMember:
    async def nowhere(master: str) -> str:
        raise AssertionError(master)

    own = OwnReplica(name=NAME, address="h:1", minimum=1, settings=ControllerModeSettings(), ha_address_of=nowhere)
    return ControlledMember(
        1,
        cast("Life", life),
        cast("Controllers", controllers),
        clock,
        Random(1),
        lambda part: asyncio.get_running_loop().create_task(part),
        own=own,
        timings=Timings(),
    )


async def test_an_epoch_is_not_begun_twice_and_controllers_hear_nothing_until_they_elect_anew() -> None:
    controllers = ToldControllers()
    member = member_of(ListedLife(MasterEpoch(3, 0)), controllers, ManualClock())
    member.take_named(NamedMaster(3, 1, "h:1", 4, frozenset({1})))
    await member.act()
    assert member.master is None
    assert member.is_silent
    member.take_named(NamedMaster(4, None))
    assert not member.is_silent


async def test_older_news_of_a_controller_are_none() -> None:
    member = member_of(ListedLife(), ToldControllers(), ManualClock())
    member.take_named(NamedMaster(5, 2, "h:2", 9, frozenset({2})))
    member.take_named(NamedMaster(4, 3, "h:3", 8, frozenset({3})))
    assert member.state is not None
    assert (member.state.epoch, member.state.master) == (5, 2)


def test_controller_mode_without_a_controller_is_refused() -> None:
    with pytest.raises(ConfigError, match="list all of them in controllerAddr"):
        ControllerModeSettings(enable_controller_mode=True)
