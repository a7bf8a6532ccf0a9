"""What is kept of owners and connections, whoever chooses their names; and refusals that wait, whatever a peer does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyromq.broker.quotas import quotas as room
from pyromq.broker.quotas.held import HELD_S, LEAVING_S, HeldRefusals
from pyromq.broker.quotas.limits import Limit, QuotaKind, parse
from pyromq.broker.quotas.quotas import TABLE, Quotas
from pyromq.broker.quotas.use import QuotaUse
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk

GROUP = QuotaKind.GROUP


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quotas(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Quotas:
    """Ten owners have a place of their own."""
    monkeypatch.setattr(room, "MOST_USES", 10)
    settings = [parse("group:* sendMessages=1 connections=2"), parse("group:named sendMessages=1")]
    return Quotas(clock, JsonTable(SimulatedDisk(now_ms=clock.now_ms), TABLE), lambda: None, settings)


def used(quotas: Quotas, name: str, now: float) -> QuotaUse:
    """Have somebody use what he may."""
    use = quotas.use(GROUP, name)
    assert use is not None
    use.buckets[Limit.SEND_MESSAGES].take(5, now)
    return use


async def test_names_that_somebody_invents_cost_nobody_his_use(quotas: Quotas, clock: ManualClock) -> None:
    now = clock.monotonic()
    tenant, *_ = (used(quotas, f"tenant-{number}", now) for number in range(10))
    allowance = quotas.changes
    invented = [used(quotas, f"invented-{number}", now) for number in range(50)]
    assert quotas.use(GROUP, "tenant-0") is tenant
    assert not allowance.is_set  # no kernel has to ask again
    assert len({id(use.buckets[Limit.SEND_MESSAGES]) for use in invented}) == 1
    assert invented[-1].buckets[Limit.SEND_MESSAGES].used(now) == 250
    assert [str(use.owner) for use in invented[:2]] == ["group:invented-0", "group:invented-1"]
    assert quotas.use(GROUP, "named") is quotas.use(GROUP, "named")  # has a quota of its own, and a place
    await clock.advance(60)
    later = quotas.use(GROUP, "invented-0")
    assert later is quotas.use(GROUP, "invented-0")
    assert allowance.is_set
    assert later is not None
    assert later.buckets[Limit.SEND_MESSAGES].used(clock.monotonic()) == 0


def test_connections_are_forgotten_where_they_were_counted(quotas: Quotas, clock: ManualClock) -> None:
    now = clock.monotonic()
    uses = [used(quotas, f"G{number}", now) for number in range(12)]  # two have no place of their own
    for use in uses:
        for address in ("10.0.0.5:1", "10.0.0.5:2"):
            use.heard_of(address, now)
    quotas.lost("10.0.0.5:1")
    assert [list(use.connections) for use in uses] == [["10.0.0.5:2"]] * 12
    assert list(quotas._counted) == ["10.0.0.5:2"]
    assert [use.count_connections(now + 200) for use in uses] == [0] * 12
    assert quotas._counted == {}


def test_a_half_message_that_is_under_way_is_in_use() -> None:
    use = QuotaUse(parse("group:G halfMessages=1").owner, {Limit.HALF_MESSAGES: 1}, {})
    assert use.is_unused(0.0)
    use.halves_under_way = 1
    assert not use.is_unused(0.0)


class FailingPeer:
    """Counts what waits for it, and cannot be written to."""

    address, is_open = "10.0.0.5:1", True

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.waiting = 0
        self.sent: list[bytes] = []

    def replies_pending(self, change: int) -> None:
        self.waiting += change

    def send_now(self, frames: bytes) -> None:
        if self.fails:
            raise OSError("no more")
        self.sent.append(frames)

    def close(self, reason: str) -> None:
        self.is_open = False


async def test_a_peer_that_cannot_be_written_to_holds_up_no_refusal_of_others(clock: ManualClock) -> None:
    held, bad, good = HeldRefusals(clock), FailingPeer(fails=True), FailingPeer(fails=False)
    for peer in (bad, good):
        held.add(peer, b"first")  # type: ignore[arg-type]
    await clock.advance(HELD_S / 2)
    held.add(good, b"second")  # type: ignore[arg-type]
    for _ in range(3):
        await clock.advance(HELD_S)
    assert (bad.is_open, good.is_open, good.sent) == (False, True, [b"first", b"second"])
    held.add(good, b"third")  # type: ignore[arg-type]
    await clock.advance(HELD_S)
    assert good.sent[2:] == [b"third"]


async def test_what_waits_is_counted_when_the_kernel_is_through(clock: ManualClock) -> None:
    """A peer may be cut off for what waits: not within the call of its own feed."""
    held, peer = HeldRefusals(clock), FailingPeer(fails=False)
    held.add(peer, b"refused")  # type: ignore[arg-type]
    assert peer.waiting == 0
    await asyncio.sleep(0)
    assert peer.waiting == len(b"refused")
    await clock.advance(HELD_S)
    assert (peer.waiting, peer.sent) == (0, [b"refused"])


async def test_many_refusals_wake_the_event_loop_now_and_then(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One timer for each would be one due in no time, again and again: the loop would never sleep."""
    held, peer, waits = HeldRefusals(clock), FailingPeer(fails=False), list[float]()
    call_later = clock.call_later

    def counted(seconds: float, callback: Callable[..., object], *given: object) -> object:
        waits.append(seconds)
        return call_later(seconds, callback, *given)

    for _ in range(1000):
        held.add(peer, b"no")  # type: ignore[arg-type]
        monkeypatch.setattr(clock, "call_later", counted)
        await clock.advance(0.0001)
    await clock.advance(HELD_S)
    await clock.advance(LEAVING_S)
    assert min(waits) >= LEAVING_S
    assert b"".join(peer.sent) == b"no" * 1000
    assert len(peer.sent) <= HELD_S / LEAVING_S + 2
    await asyncio.sleep(0)
    assert peer.waiting == 0
