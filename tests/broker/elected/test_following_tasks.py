"""How often a member tries to follow when what ends it is here: a full disk, a store that is being opened anew."""

from __future__ import annotations

import asyncio

from pyromq.broker.elected_daemon import FAULTS_APART_S, MOST_PAUSE_S, FollowingTasks
from pyromq.errors import PyroError
from pyromq.testing.virtual_time import VirtualClock, run_virtually


async def _full() -> None:
    raise PyroError("the disk is full")


async def _tries(clock: VirtualClock, following: FollowingTasks, seconds: float) -> int:
    """Return how often it is tried within this time by a member that begins anew at once."""
    until, count = clock.monotonic() + seconds, 0
    while clock.monotonic() < until:
        await following.spawn(_full())
        count += 1
    return count


def test_a_fault_that_stays_is_tried_more_and_more_seldom_and_a_single_one_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        following = FollowingTasks(clock, asyncio.get_running_loop().create_future())
        for _ in range(2):
            begun = clock.monotonic()
            await following.spawn(_full())
            assert clock.monotonic() == begun  # a change of roles does not wait
            assert await _tries(clock, following, 60.0) <= 60.0 / MOST_PAUSE_S + 7
            await clock.sleep(FAULTS_APART_S + 1)

    run_virtually(main)


def test_the_pause_ends_with_the_daemon() -> None:
    async def main(clock: VirtualClock) -> None:
        following = FollowingTasks(clock, asyncio.get_running_loop().create_future())
        await following.spawn(_full())
        waiting = following.spawn(_full())
        begun = clock.monotonic()
        await asyncio.sleep(0)
        await following.close()
        assert waiting.cancelled()
        assert clock.monotonic() == begun

    run_virtually(main)
