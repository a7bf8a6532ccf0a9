"""How far a capture is, told of its state alone."""

from __future__ import annotations

from pyromq.cdc.changes import Position
from pyromq.cdc.state import CaptureState, Round
from pyromq.cdc.status import report

POSITION = Position(done="0-1-7")


def state(*, is_caught_up: bool, open: Round | None = None) -> CaptureState:
    return CaptureState(
        source="shop", position=POSITION, ts_ms=10_000, saved_ms=70_000, is_caught_up=is_caught_up, open=open
    )


def test_a_quiet_source_is_not_behind() -> None:
    assert report(state(is_caught_up=True), 71_000)["behind ms"] == 0


def test_a_source_with_more_in_its_log_is_behind() -> None:
    assert report(state(is_caught_up=False), 71_000)["behind ms"] == 60_000


def test_what_is_under_way_counts_until_it_is_stored() -> None:
    waiting = Round(POSITION, 0, (), (), (), {}, ts_ms=66_000)
    assert report(state(is_caught_up=True, open=waiting), 71_000)["behind ms"] == 5_000
