"""One replica's time as master of a set that a controller leads. What is confirmed follows the rules of elected sets.

A member of the in-sync set counts until the controller has taken it out: a master of ours never acknowledges alone what
another member may be elected without. Java's 5.5.0 does, from the moment in which a replica's connection ends.
"""

from __future__ import annotations

from ....coordination.store import ChangeOutcome, Verdict
from ...election.membership import SetProposal
from ...election.set_state import SetState
from ..mastership import Mastership, Seat

ASK_AGAIN_S = 1.0  # behind a change that was not made


class ControlledMastership(Mastership):
    """Event loop only. Replicas may be Java's, which say nothing for seconds: who has a stream is not gone by that.

    `grace_s` of the timings is for one without a stream, `silence_s` for one that has it and does not catch up."""

    def __init__(self, seat: Seat, state: SetState, version: int) -> None:
        super().__init__(seat, state, version)
        self._lost: dict[int, float] = {}  # when a replica's stream ended
        self._caught_up: dict[int, float] = {}  # when a replica had last all that there was
        self._marks: dict[int, tuple[int, float]] = {}  # what it has to reach for that, and since when it was there
        self._not_before = float("-inf")

    def begin_stream(self, replica: int) -> None:
        super().begin_stream(replica)
        now = self.seat.clock.monotonic()
        self._caught_up[replica] = now
        self._marks[replica] = (self.seat.life.end, now)

    def note_report(self, replica: int, position: int) -> None:
        super().note_report(replica, position)
        end, since = self._marks.get(replica, (0, self._began))
        if position >= end:
            self._caught_up[replica] = since
            self._marks[replica] = (self.seat.life.end, self.seat.clock.monotonic())

    def end_stream(self, replica: int) -> None:
        super().end_stream(replica)
        self._lost[replica] = self.seat.clock.monotonic()

    def gone(self) -> set[int]:
        now, timings = self.seat.clock.monotonic(), self.seat.timings
        behind_s = {one: now - self._caught_up[one] for one in self.followers}
        away_s = {one: now - self._lost.get(one, self._began) for one in self.acting.members if one not in behind_s}
        late = {one for one, seconds in behind_s.items() if seconds > timings.silence_s and self._is_behind(one)}
        return late | {one for one, seconds in away_s.items() if seconds > timings.grace_s}

    def _is_behind(self, replica: int) -> bool:
        """Return whether a replica lacks something: one that is silent, and lacks nothing, is in sync."""
        reported = self.acting.report_of(replica)
        return reported is None or reported < self.seat.life.end

    def wanted(self) -> SetProposal | None:
        return None if self.seat.clock.monotonic() < self._not_before else super().wanted()

    def note_outcome(self, outcome: ChangeOutcome, state: SetState) -> None:
        super().note_outcome(outcome, state)
        if outcome.verdict is Verdict.DONE:
            return
        self._not_before = self.seat.clock.monotonic() + ASK_AGAIN_S
        if outcome.verdict is Verdict.CONFLICT and not self.is_over:
            self.acting.refuse()
            self.move_confirmed()
