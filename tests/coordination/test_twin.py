"""The simulations' store keeps what every coordination store promises, and can be as bad as its faults say."""

from __future__ import annotations

import pytest

from pyromq.ambient import seeded_random
from pyromq.coordination.store import ABSENT, CoordinationUnreachable, Put, Verdict
from pyromq.testing.coordination import CoordinationFaults, SimulatedCoordination
from pyromq.testing.virtual_time import NothingWillHappen, VirtualClock, run_virtually
from tests.coordination.contract import SCENARIOS, Members, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_the_contract(scenario: Scenario, seed: int) -> None:
    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(seed))
        await scenario(Members(store.member("a"), store.member("b"), "/pyromq/t/", clock))

    run_virtually(run)


def test_an_answer_that_is_lost_leaves_the_change_done() -> None:
    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(1))
        member = store.member("a")
        member.faults = CoordinationFaults(unanswered=1.0)
        assert (await member.change({"k": ABSENT}, [Put("k", b"1")])).verdict is Verdict.UNKNOWN
        assert store.keys["k"].value == b"1"

    run_virtually(run)


def test_a_late_change_is_carried_out_after_a_read_that_did_not_show_it() -> None:
    """Why a read that shows the old version does not mean that a change has failed."""

    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(1))
        member, other = store.member("a"), store.member("b")
        member.faults = CoordinationFaults(late=1.0)
        assert (await member.change({"k": ABSENT}, [Put("k", b"1")])).verdict is Verdict.UNKNOWN
        assert (await other.read("k")).keys == {}
        await clock.sleep(20)
        assert (await other.read("k")).keys["k"].value == b"1"

    run_virtually(run)


def test_a_late_change_fails_once_its_key_was_written() -> None:
    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(1))
        member, other = store.member("a"), store.member("b")
        member.faults = CoordinationFaults(late=1.0)
        await member.change({"k": ABSENT}, [Put("k", b"late")])
        assert (await other.change({"k": ABSENT}, [Put("k", b"fence")])).verdict is Verdict.DONE
        await clock.sleep(20)
        assert store.keys["k"].value == b"fence"

    run_virtually(run)


def test_a_node_that_is_cut_off_hears_nothing_and_its_watch_goes_on_later() -> None:
    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(1))
        member, other = store.member("a"), store.member("b")
        watch = member.watch("k", 1)
        member.faults.is_reachable = False
        with pytest.raises(CoordinationUnreachable):
            await member.read("k")
        await other.change({}, [Put("k1", b"1")])
        await other.change({}, [Put("k2", b"1")])
        clock.call_later(5, setattr, member.faults, "is_reachable", True)
        assert await anext(watch) == 3  # both in one
        assert clock.monotonic() >= 5

    run_virtually(run)


def test_leases_outlive_a_store_without_quorum() -> None:
    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(1))
        member = store.member("a")
        await member.change({}, [Put("k", b"1", await member.hold(3))])
        store.has_quorum = False
        await clock.sleep(60)
        assert "k" in store.keys
        store.has_quorum = True
        await clock.sleep(10)
        assert "k" not in store.keys

    run_virtually(run)


def test_a_virtual_loop_says_when_nothing_will_happen() -> None:
    async def run(clock: VirtualClock) -> None:
        store = SimulatedCoordination(clock, seeded_random(1))
        await anext(store.member("a").watch("k", 1))

    with pytest.raises(NothingWillHappen):
        run_virtually(run)
