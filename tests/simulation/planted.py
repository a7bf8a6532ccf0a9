"""Bugs that the simulation must find: each is a replica, or a master's part of one, that breaks one rule."""

from __future__ import annotations

from dataclasses import replace

from pyromq.broker.elected.mastership import Seat
from pyromq.broker.elected.seams import FollowedStream
from pyromq.broker.election.acting_set import ActingSet
from pyromq.broker.election.amnesia import BootNote
from pyromq.broker.election.candidacy import elected_state
from pyromq.broker.election.joining import LogCut
from pyromq.broker.election.membership import SetProposal
from pyromq.broker.election.set_state import SetState
from pyromq.coordination.store import ChangeOutcome, Verdict
from pyromq.protocol.replication.epochs import EpochList
from tests.simulation.leading import SimulatedMastership
from tests.simulation.life import SimulatedLife, SimulatedMasterStream
from tests.simulation.network import StreamEnd
from tests.simulation.replica import KEYS, TIMINGS, Replica

# --- what is acknowledged, and by whom --------------------------------------------------------------------------------


class AcksBeforeConfirm(Replica):
    class Early(SimulatedMastership):
        def acked_below(self) -> int:
            return self.replica.disk.end

    mastership = Early


class CountsTheRecordedSetOnly(Replica):
    """Who is to be added need not acknowledge until the store has said done."""

    class Recorded(SimulatedMastership):
        class Acting(ActingSet):
            @property
            def members(self) -> frozenset[int]:
                return self.state.in_sync

            def propose(self, in_sync: frozenset[int]) -> None:
                self._undecided.append(in_sync)

        acting_set = Acting

    mastership = Recorded


class ShrinksBeforeDone(Replica):
    """Java's: the smaller set counts as soon as it is asked for."""

    class Early(SimulatedMastership):
        class Acting(ActingSet):
            def propose(self, in_sync: frozenset[int]) -> None:
                super().propose(in_sync)
                if in_sync < self.state.in_sync:
                    self.settle(self.state.with_set(in_sync, 0))

        acting_set = Acting

    mastership = Early


class TakesUnknownAsFailed(Replica):
    class Hasty(SimulatedMastership):
        def note_outcome(self, outcome: ChangeOutcome, state: SetState) -> None:
            super().note_outcome(outcome, state)
            if outcome.verdict is Verdict.UNKNOWN and not self.is_over:
                self.acting.settle(self.acting.state)
                self.move_confirmed()

    mastership = Hasty


class TakesUnknownAsDone(Replica):
    class Hasty(SimulatedMastership):
        def note_outcome(self, outcome: ChangeOutcome, state: SetState) -> None:
            super().note_outcome(outcome, state)
            if outcome.verdict is Verdict.UNKNOWN and not self.is_over:
                self.acting.settle(state)
                self.move_confirmed()

    mastership = Hasty


class TakesAnOldReadAsFailed(Replica):
    """After unknown it reads the state that its change expects, and believes that the change will not come any more."""

    class Hasty(SimulatedMastership):
        async def tend_set(self) -> None:
            await super().tend_set()
            if self.acting.is_undecided and not self.is_over:
                self.acting.settle(self.acting.state)
                self.move_confirmed()

    mastership = Hasty


class AcksByItsLease(Replica):
    """A master that holds `leader` believes that nobody else can be one, and waits for nobody."""

    class Leased(SimulatedMastership):
        def acked_below(self) -> int:
            snapshot = self.replica.snapshot
            is_leader = (
                snapshot is not None and KEYS.leader in snapshot.keys and self.replica.presence.lease is not None
            )
            return self.replica.disk.end if is_leader else super().acked_below()

    mastership = Leased


class AcksByAClockThatStands(Replica):
    """It waits for nobody within the time of its lease, by a clock that does not go on while the replica is paused."""

    class Leased(SimulatedMastership):
        def acked_below(self) -> int:
            own_s = self.replica.now - self._began  # of which each pause takes nothing: it was read before
            return self.replica.disk.end if own_s < TIMINGS.ttl_s else super().acked_below()

    mastership = Leased


class ReleasesParkedReplies(Replica):
    """A deposed master answers what waited as stored."""

    class Polite(SimulatedMastership):
        def end(self) -> None:
            for position, record, _ in self._parked:
                self.replica.world.checker.ack(self.replica.me, self.epoch, position, record, self.acting.possible)
            super().end()

    mastership = Polite


class SyncsNothingBeforeItShrinks(Replica):
    class Careless(SimulatedMastership):
        async def sync_confirmed(self) -> None:
            pass

        def is_safe_to_ask(self, proposal: SetProposal) -> bool:
            return True

    mastership = Careless


class SyncsNothingBeforeItLeads(Replica):
    """An election that leaves members out is a shrink, too."""

    async def sync_before_leading(self) -> None:
        pass


class AddsWhoIsBehind(Replica):
    """A replica joins the set as soon as it has a stream."""

    class Generous(SimulatedMastership):
        class Acting(ActingSet):
            def may_join(self, replica: int) -> bool:
                return replica != self.me

        acting_set = Acting

    mastership = Generous


class ShrinksBelowTheMinimum(Replica):
    """Until it is alone: the last replica standing, which loses its power next."""

    class Alone(SimulatedMastership):
        class Acting(ActingSet):
            def propose(self, in_sync: frozenset[int]) -> None:
                self._undecided.append(in_sync)
                self._leaving = self.members - in_sync

        acting_set = Acting

        def wanted(self) -> SetProposal | None:
            state = self.acting.state
            self.acting.state = replace(state, minimum=1)
            try:
                return super().wanted()
            finally:
                self.acting.state = state

    mastership = Alone


# --- elections and epochs ---------------------------------------------------------------------------------------------


class CandidateKeepsAcking(Replica):
    """It campaigns with the stream of the old master open, and goes on reporting the end of its log there."""

    def leave_master(self) -> None:
        if isinstance(self.stream, SimulatedMasterStream):
            self.spawn(self._keep_reporting(self.stream.link))

    async def _keep_reporting(self, stream: StreamEnd) -> None:
        while not stream.is_over:
            stream.send("report", self.disk.end)
            await self.sleep(0.1)


class FollowsWhoeverClaims(Replica):
    """It follows any replica that takes itself for a master, and nobody compares the epochs of a handshake."""

    class Open(SimulatedMastership):
        def takes(self, epoch: int) -> bool:
            return not self.is_over

    mastership = Open

    def followed_state(self) -> SetState | None:
        masters = [each for each in self.world.replicas if each.master is not None and each is not self]
        if self.state is None or not masters:
            return self.state
        claims = self.world.rng.choice(masters)
        return replace(self.state, master=claims.me, in_sync=self.state.in_sync | {claims.me})

    def is_followed(self, stream: FollowedStream) -> bool:
        return self.stream is stream


class CountsReportsOfEarlierEpochs(Replica):
    """A master that is elected again goes on with what replicas said to it before."""

    reports: dict[int, int]

    def start(self) -> None:
        self.reports = {}
        super().start()

    class Remembering(SimulatedMastership):
        def __init__(self, seat: Seat, state: SetState, version: int) -> None:
            super().__init__(seat, state, version)
            replica = self.replica
            assert isinstance(replica, CountsReportsOfEarlierEpochs)
            self.acting._reports = {one: min(said, replica.disk.end) for one, said in replica.reports.items()}

        def end(self) -> None:
            assert isinstance(self.replica, CountsReportsOfEarlierEpochs)
            self.replica.reports = dict(self.acting._reports)
            super().end()

    mastership = Remembering


class CampaignsFromOutside(Replica):
    """A replica that is not in the in-sync set makes itself master."""

    async def _campaign(self) -> None:
        if self.snapshot is not None and self.state is not None and self.me not in self.state.in_sync:
            view = self.view()
            if view.master_is_gone and not view.hears_master:
                self.leave_master()
                wider = replace(view, state=replace(view.state, in_sync=view.state.in_sync | {self.me}))
                await self._ask_to_lead(elected_state(wider, 0), self.version, {})
            return
        await super()._campaign()


class SavesEpochsUnsynced(Replica):
    def save_epochs(self, epochs: EpochList) -> None:
        self.disk.save_epochs(epochs, is_synced=False)


class RefusesAnEqualStart(Replica):
    """Java's: an epoch that begins where the last one did gets no entry of its own."""

    def begun_epochs(self, epoch: int) -> EpochList:
        entries = self.disk.epochs.entries
        if entries and entries[-1].start == self.disk.end:
            return self.disk.epochs
        return super().begun_epochs(epoch)


class ResumesItsEpoch(Replica):
    """A master that was restarted goes on in the epoch that the state names."""

    async def _campaign(self) -> None:
        if self.state is not None and self.state.master == self.me and self.disk.epochs.newest == self.state.epoch:
            await self.adopt()
        else:
            await super()._campaign()

    def begun_epochs(self, epoch: int) -> EpochList:
        return self.disk.epochs if self.disk.epochs.newest == epoch else super().begun_epochs(epoch)


class KeepsAStaleTail(Replica):
    """It follows from its own end, whatever stands before it."""

    def cut_for(self, stream: FollowedStream) -> LogCut | None:
        end = min(self.disk.end, stream.end)
        known = EpochList(entry for entry in stream.epochs.entries if entry.start < end)
        return LogCut(end, known, 0)


class ForgetsItsBoot(Replica):
    """Every start is like the first."""

    def note_at_start(self) -> BootNote:
        return BootNote(self.disk.boot, self.world.acks_synced)


# --- what is shown ----------------------------------------------------------------------------------------------------


class ShowsBeyondConfirmed(Replica):
    """A follower shows what it has."""

    def told_readable(self, confirmed: int) -> int:
        return self.disk.end


class ReadableSinksOnPromotion(Replica):
    """A new master begins to show from what its set has reported to it."""

    class Fresh(SimulatedMastership):
        def __init__(self, seat: Seat, state: SetState, version: int) -> None:
            assert isinstance(seat.life, SimulatedLife)
            replica = seat.life.replica
            before = replica.readable
            replica.readable = 0
            super().__init__(seat, state, version)
            replica.readable = before
            replica.show(self.acting.confirmed)

    mastership = Fresh


BUGS: dict[str, type[Replica]] = {
    kind.__name__: kind
    for kind in (
        AcksBeforeConfirm, CountsTheRecordedSetOnly, ShrinksBeforeDone, TakesUnknownAsFailed, TakesUnknownAsDone,
        TakesAnOldReadAsFailed, AcksByItsLease, AcksByAClockThatStands, ReleasesParkedReplies,
        SyncsNothingBeforeItShrinks, SyncsNothingBeforeItLeads, AddsWhoIsBehind, ShrinksBelowTheMinimum,
        CandidateKeepsAcking, FollowsWhoeverClaims, CountsReportsOfEarlierEpochs, CampaignsFromOutside,
        SavesEpochsUnsynced, RefusesAnEqualStart, ResumesItsEpoch, KeepsAStaleTail, ForgetsItsBoot,
        ShowsBeyondConfirmed, ReadableSinksOnPromotion,
    )
}  # fmt: skip
