"""Who has to have a record before it is acknowledged: the acting set of a master, and what that set has confirmed.

The acting set is the recorded in-sync set together with the set of every change that was sent and is not known to have
failed. A replica that is to be added must acknowledge from the turn in which that is sent, before the store knows;
one that is to leave must acknowledge until the store has said that it is gone.
"""

from __future__ import annotations

from ...errors import ProtocolError
from .set_state import SetState


class ActingSet:
    """Of one master in one epoch; another epoch has another one. Event loop only.

    Invariant: `confirmed` never sinks, and every member of the acting set has reported that it has all below it."""

    def __init__(self, me: int, state: SetState, *, confirmed: int, end: int, synced: int | None = None) -> None:
        """`confirmed`: what this replica knew to be confirmed before. `end`: of its log, where the epoch begins.

        `synced`: how much of that is on its medium, where acks wait for that."""
        self.me = me
        self.state = state
        self.confirmed = confirmed
        self._own = end if synced is None else synced
        self._start = self._end = end
        self._reports: dict[int, int] = {}
        self._undecided: list[frozenset[int]] = []
        self._leaving: frozenset[int] = frozenset()

    @property
    def members(self) -> frozenset[int]:
        """The acting set: each of these must have a record before it counts."""
        return self.state.in_sync.union(*self._undecided)

    @property
    def is_undecided(self) -> bool:
        """Whether a change was sent whose outcome is not known."""
        return bool(self._undecided)

    @property
    def possible(self) -> tuple[frozenset[int], ...]:
        """The sets of which the store will turn out to have one: who is in it can be elected."""
        return self.state.in_sync, *self._undecided

    @property
    def is_short(self) -> bool:
        """Whether sends have to be refused: the store may have a set that is smaller than the minimum.

        A replica that is about to be added has to acknowledge, but does not count here before the store has it: until
        then it could not be elected if the others were gone."""
        return min(map(len, self.possible)) < self.state.minimum

    def report_of(self, replica: int) -> int | None:
        """Return up to where a replica has said to have the log; None: nothing on its present stream."""
        return self._own if replica == self.me else self._reports.get(replica)

    def begin_stream(self, replica: int) -> None:
        """Forget what a replica said on an earlier stream: it may have lost its end since, or be cut."""
        self._reports.pop(replica, None)

    def note_end(self, end: int) -> None:
        """Note how far the log goes here, synced or not: nobody can have more of it."""
        self._end = max(self._end, end)

    def note_own(self, position: int) -> None:
        """Note how far this replica itself has the log: appended, or synced where acks wait for that."""
        self._own = max(self._own, position)
        self.note_end(position)
        self._advance()

    def note_report(self, replica: int, position: int) -> None:
        """Note what a replica says on a stream of this epoch. Raises ProtocolError for what cannot be true."""
        before = self._reports.get(replica, 0)
        if not before <= position <= self._end:
            raise ProtocolError(
                f"replica {replica} reports {position}, after {before} and with {self._end} here: close its stream"
            )
        self._reports[replica] = position
        self._advance()

    def may_join(self, replica: int) -> bool:
        """Return whether a replica may be added in this turn: it has all that was ever confirmed.

        A new master does not know how far that went in earlier epochs, but all of it is before the start of its own."""
        reported = self.report_of(replica)
        return reported is not None and reported >= max(self.confirmed, self._start)

    def propose(self, in_sync: frozenset[int]) -> None:
        """Note that a change to this set is sent, in the same turn. Raises ValueError for one that is not safe.

        Reports of a replica that is to leave count no more, though it must be asked until it has left: what it would
        acknowledge now may not be on any medium when it is gone. So nothing is confirmed until that is settled."""
        strangers = [replica for replica in sorted(in_sync - self.members) if not self.may_join(replica)]
        if strangers or self.me not in in_sync or len(in_sync) < min(self.state.minimum, len(self.state.in_sync)):
            raise ValueError(f"{sorted(in_sync)} may not follow {sorted(self.state.in_sync)}: behind are {strangers}")
        self._undecided.append(in_sync)
        self._leaving = self.members - in_sync

    def refuse(self) -> None:
        """Note that whoever decides has looked at a change and will not make it, nor one that was sent before."""
        self._undecided.clear()
        self._leaving = frozenset()
        self._advance()

    def settle(self, state: SetState) -> None:
        """Take over a state that replaced the one that all changes so far had expected: none of them can come now.

        That is the state of a change that is done, or one that was read with a newer version. A read of the version
        that the changes expect settles nothing: one of them may still be under way to the store."""
        self.state = state
        self._undecided.clear()
        self._leaving = frozenset()
        self._advance()

    def _advance(self) -> None:
        reports = [self.report_of(replica) for replica in self.members]
        known = [report for report in reports if report is not None]
        if len(known) == len(reports) and not self._leaving:
            self.confirmed = max(self.confirmed, min(known))
