"""One replica's time as master, in one epoch: who is heard, what is confirmed, and which in-sync set is asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ... import logs
from ...ambient import Clock
from ...coordination.store import ChangeOutcome, Verdict
from ...errors import ProtocolError
from ..election.acting_set import ActingSet
from ..election.membership import SetProposal, next_set
from ..election.set_state import SetState
from .seams import ReplicaLog, Timings

log = logs.get("pyromq.broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a master is given by its member. `ask` wants another in-sync set, by the version that it is to replace.

    `take_state` tells of a change that is done, `learn` looks what the set is now."""

    me: int
    life: ReplicaLog
    ask: Callable[[SetState, int], Awaitable[ChangeOutcome]]
    clock: Clock
    timings: Timings
    take_state: Callable[[SetState, int], None]
    learn: Callable[[], Awaitable[None]]


class Mastership:
    """Event loop only. `on_confirmed` is called, in the same turn, when more of the log is confirmed.

    `on_over`: when this replica leads no more. From then on nothing may be acknowledged, and nothing appended."""

    acting_set: type[ActingSet] = ActingSet

    def __init__(self, seat: Seat, state: SetState, version: int) -> None:
        self.seat = seat
        self.epoch = state.epoch
        self.version = version  # of the state that the store has, as far as is known
        self.is_over = self._is_leaving = False
        life = seat.life
        synced = life.synced if life.acks_synced else None
        self.acting = self.acting_set(seat.me, state, confirmed=life.readable, end=life.end, synced=synced)
        self.on_confirmed: list[Callable[[int], None]] = []
        self.on_change: list[Callable[[], None]] = []  # of the set, or of what is heard
        self.on_over: list[Callable[[], None]] = []
        self._heard: dict[int, float] = {}
        self._streams: set[int] = set()
        self._began = seat.clock.monotonic()
        self._shown = self.acting.confirmed

    def end(self) -> None:
        """Stop acknowledging: what waits for a reply is unknown."""
        self.is_over = True
        for listener in self.on_over:
            listener()

    @property
    def confirmed(self) -> int:
        """Return up to where every member of the acting set has the log."""
        return self.acting.confirmed

    @property
    def is_short(self) -> bool:
        """Return whether sends have to be refused: fewer than the minimum would have them."""
        return self.is_over or self._is_leaving or self.acting.is_short

    def leave(self) -> None:
        """Refuse sends from here on: this master is about to give way."""
        self._is_leaving = True
        for listener in self.on_change:
            listener()

    # --- the log here, and followers ----------------------------------------------------------------------------------

    def note_own(self, end: int, synced: int) -> None:
        """Note how far the log goes here, and how much of it is on the medium."""
        self.acting.note_end(end)
        self.acting.note_own(synced if self.seat.life.acks_synced else end)
        self.move_confirmed()

    def takes(self, epoch: int) -> bool:
        """Return whether a follower that names this epoch is ours."""
        return epoch == self.epoch and not self.is_over

    def begin_stream(self, replica: int) -> None:
        """Note that a replica has a new stream, the only one of its that counts: what it said before is forgotten."""
        self._streams.add(replica)
        self.acting.begin_stream(replica)

    def note_report(self, replica: int, position: int) -> None:
        """Note what a replica says on its present stream. Raises ProtocolError for what cannot be true."""
        if self.is_over:
            raise ProtocolError("this replica leads no more")
        self.acting.note_report(replica, position)
        self.heard(replica)
        self.move_confirmed()

    def heard(self, replica: int) -> None:
        """Note that a replica is there."""
        self._heard[replica] = self.seat.clock.monotonic()

    def end_stream(self, replica: int) -> None:
        """Note that the present stream of a replica is over."""
        self._streams.discard(replica)
        self.acting.begin_stream(replica)

    @property
    def followers(self) -> list[int]:
        """Return the replicas that have a stream."""
        return sorted(self._streams)

    def move_confirmed(self) -> None:
        """Tell how far the acting set has the log."""
        if not self.is_over and self.acting.confirmed > self._shown:
            self._shown = self.acting.confirmed
            for listener in self.on_confirmed:
                listener(self._shown)

    # --- the set -----------------------------------------------------------------------------------------------------

    def gone(self) -> set[int]:
        """Return the members of the acting set that cannot be waited for any longer."""
        now, grace_s = self.seat.clock.monotonic(), self.seat.timings.grace_s
        return {one for one in self.acting.members if now - self._heard.get(one, self._began) > grace_s}

    def wanted(self) -> SetProposal | None:
        gone = self.gone()
        return next_set(self.acting, gone, [one for one in self.followers if one not in gone])

    async def tend_set(self) -> None:
        """Ask for another set, if one is wanted: without who is gone, with who has caught up."""
        proposal = self.wanted()
        if proposal is not None and proposal.needs_sync:
            await self.sync_confirmed()
            proposal = self.wanted()
        if proposal is None or self.is_over or not self.is_safe_to_ask(proposal):
            return
        state = self.acting.state.with_set(proposal.in_sync, self.seat.clock.now_ms())
        self.acting.propose(proposal.in_sync)
        outcome = await self.ask(state)
        self.note_outcome(outcome, state)
        if outcome.verdict is not Verdict.DONE:
            await self.seat.learn()

    async def sync_confirmed(self) -> None:
        await self.seat.life.sync()

    def is_safe_to_ask(self, proposal: SetProposal) -> bool:
        """Return whether what a leaving replica has acknowledged is on a medium."""
        return not proposal.needs_sync or self.seat.life.synced >= self.acting.confirmed

    async def ask(self, state: SetState) -> ChangeOutcome:
        return await self.seat.ask(state, self.version)

    def note_outcome(self, outcome: ChangeOutcome, state: SetState) -> None:
        if outcome.verdict is Verdict.DONE and not self.is_over:
            self.seat.take_state(state, outcome.revision)

    def settle(self, state: SetState, version: int) -> None:
        """Take over a state of ours that is newer than the one we knew: older changes cannot come any more."""
        self.version = version
        self.acting.settle(state)
        log.info("the in-sync set is another one", epoch=self.epoch, members=sorted(state.in_sync))
        self.move_confirmed()
        for listener in self.on_change:
            listener()
