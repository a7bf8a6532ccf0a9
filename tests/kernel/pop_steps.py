"""Steps on a table of young check points, drawn by Hypothesis: the same ones for a table, its replay, and its twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pyromq.kernel.pops import CheckPoint
from pyromq.kernel.python.pop_table import PopTable

LANES = [("g", "T", 0), ("g", "T", 1), ("g", "%RETRY%g_T", 0), ("grüppe", "T", 0)]
Step = Callable[[PopTable], Any]


class State(NamedTuple):
    """Everything about a table that a caller can see."""

    lanes: list[Any]
    due: list[CheckPoint]
    aged: list[CheckPoint]
    figures: list[Any]
    used: int


def state_of(table: PopTable) -> State:
    lanes = [
        (lane, table.names(lane), table.next_offset(lane), table.base(lane), table.points(lane))
        for lane in table.lanes()
    ]
    most = 1 << 62
    return State(lanes, table.due(most, 10_000), table.aged(most, 10_000), table.in_flight(), table.used_bytes)


_small = st.integers(0, 40)
_lane = st.sampled_from(LANES)
_time = st.integers(1_000, 1_020)
_invisible = st.sampled_from((-5, 0, 10, 30_000, 1 << 40, (1 << 63) - 1))


@st.composite
def hand_out(draw: st.DrawFn) -> Step:
    lane, start = draw(_lane), draw(_small)
    offsets = sorted(draw(st.sets(st.integers(start, start + 12), min_size=1, max_size=8)))
    if draw(st.booleans()):
        offsets = list(range(start, start + len(offsets)))
    following = offsets[-1] + draw(st.integers(1, 5))
    values = following, draw(_time), draw(_invisible), draw(st.integers(0, 7))
    return lambda table: table.hand_out(table.lane(*lane), start, offsets, *values)


def _pick(table: PopTable, number: int) -> CheckPoint | None:
    """One of the open check points."""
    found = [point for lane in table.lanes() for point in table.points(lane)]
    return found[number % len(found)] if found else None


@st.composite
def ack(draw: st.DrawFn) -> Step:
    number, place = draw(_small), draw(st.integers(0, 9))

    def step(table: PopTable) -> Any:
        point = _pick(table, number)
        if point is None:
            return None
        offset = point.offsets[place % len(point.offsets)] + (50 if place == 9 else 0)
        return table.ack(point.lane, point.start, point.pop_time, offset)

    return step


@st.composite
def change(draw: st.DrawFn) -> Step:
    number, place = draw(_small), draw(st.integers(0, 9))
    values = draw(_time), draw(_invisible), draw(st.booleans())

    def step(table: PopTable) -> Any:
        point = _pick(table, number)
        if point is None:
            return None
        offset = point.offsets[place % len(point.offsets)]
        return table.change(point.lane, point.start, point.pop_time, offset, *values)

    return step


@st.composite
def leave(draw: st.DrawFn) -> Step:
    number, how = draw(_small), draw(st.sampled_from(("revived", "spilled")))

    def step(table: PopTable) -> Any:
        point = _pick(table, number)
        return None if point is None else getattr(table, how)(point)

    return step


@st.composite
def lane_steps(draw: st.DrawFn) -> Step:
    lane, offset = draw(_lane), draw(st.integers(-1, 60))
    if draw(st.integers(0, 3)) == 0:
        return lambda table: table.drop_lane(table.lane(*lane))
    return lambda table: table.set_next(table.lane(*lane), offset)


def other() -> st.SearchStrategy[Step]:
    return st.binary(max_size=200).map(lambda body: lambda table: table.note_other(128 + len(body) % 128, body))


def steps() -> st.SearchStrategy[Step]:
    """One step: pops and acks more often than the rest."""
    return st.one_of(hand_out(), hand_out(), ack(), ack(), ack(), change(), leave(), lane_steps(), other())
