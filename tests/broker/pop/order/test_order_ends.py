"""Lanes are woken when their block ends, once, and not before; what was moved or taken back does not count."""

from __future__ import annotations

from pyromq.broker.pop.order.ends import MANY, BlockEnds
from pyromq.broker.pop.order.table import OrderLane
from pyromq.testing.clock import ManualClock

NOW = 1_700_000_000_000
A, B = OrderLane("T", "G", 0), OrderLane("T", "G", 1)


def ends() -> tuple[ManualClock, BlockEnds, list[OrderLane]]:
    clock = ManualClock(NOW)
    woken: list[OrderLane] = []
    return clock, BlockEnds(clock, woken.append), woken


async def test_each_lane_is_woken_at_its_end() -> None:
    clock, blocks, woken = ends()
    blocks.set(A, NOW + 2_000)
    blocks.set(B, NOW + 1_000)
    await clock.advance(0.9)
    assert woken == []
    await clock.advance(0.1)
    assert woken == [B]
    await clock.advance(5)
    assert woken == [B, A]
    assert len(blocks) == 0


async def test_the_last_end_counts_be_it_later_or_earlier() -> None:
    clock, blocks, woken = ends()
    blocks.set(A, NOW + 1_000)
    blocks.set(A, NOW + 3_000)
    blocks.set(B, NOW + 3_000)
    blocks.set(B, NOW + 500)
    await clock.advance(1)
    assert woken == [B]
    await clock.advance(1.9)
    assert woken == [B]
    await clock.advance(0.1)
    assert woken == [B, A]


async def test_a_lane_that_is_free_already_is_not_woken_later() -> None:
    clock, blocks, woken = ends()
    blocks.set(A, NOW + 1_000)
    blocks.set(A, 0)
    await clock.advance(5)
    assert woken == []


async def test_an_end_centuries_ahead_and_renewals_without_number_cost_little() -> None:
    clock, blocks, woken = ends()
    blocks.set(A, (1 << 63) - 1)
    for step in range(10 * MANY):
        blocks.set(B, NOW + 1_000 + step)
    assert len(blocks._heap) <= MANY + 1
    await clock.advance(100_000)
    assert woken == [B]
    assert len(blocks) == 1
    blocks.close()
