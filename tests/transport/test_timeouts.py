"""One timer for many time limits: who is late, when, and that nobody else is."""

from __future__ import annotations

from pyromq.testing.clock import ManualClock
from pyromq.transport.turns.timeouts import Timeouts


async def test_each_is_late_at_its_own_time_whatever_the_order() -> None:
    clock = ManualClock()
    late: list[tuple[str, float]] = []
    start = clock.monotonic()
    timeouts: Timeouts[str] = Timeouts(clock, lambda key: late.append((key, round(clock.monotonic() - start, 3))))
    for key, seconds in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("never", 60.0)):
        timeouts.begin(key, seconds)
    timeouts.end("b")
    await clock.advance(10)
    assert late == [("a", 1.0), ("c", 3.0)]
    timeouts.stop()
    await clock.advance(100)
    assert len(late) == 2


async def test_a_limit_that_begins_anew_counts_from_then_on() -> None:
    clock = ManualClock()
    late: list[str] = []
    timeouts: Timeouts[str] = Timeouts(clock, late.append)
    timeouts.begin("a", 2)
    await clock.advance(1.5)
    timeouts.begin("a", 2)
    await clock.advance(1.5)
    assert late == []
    await clock.advance(0.5)
    assert late == ["a"]


async def test_who_is_late_may_begin_again() -> None:
    clock = ManualClock()
    late: list[str] = []

    def again(key: str) -> None:
        late.append(key)
        timeouts.begin(key, 1)

    timeouts: Timeouts[str] = Timeouts(clock, again)
    timeouts.begin("a", 1)
    await clock.advance(3)
    assert late == ["a", "a", "a"]
