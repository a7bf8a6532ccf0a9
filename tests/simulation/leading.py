"""The master's part of a simulated replica: streams to followers, what is confirmed, changes of the set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyromq.broker.election.acting_set import ActingSet
from pyromq.broker.election.membership import SetProposal, next_set
from pyromq.broker.election.set_state import SetState
from pyromq.coordination.store import ChangeOutcome, Put, Verdict
from pyromq.errors import ProtocolError
from tests.simulation.disk import Record
from tests.simulation.network import StreamEnd, StreamEnded

if TYPE_CHECKING:
    from tests.simulation.replica import Replica

GRACE_S = 1.0
HEARTBEAT_S = 0.3
MOST_RECORDS = 8


class Mastership:
    """One replica's time as master, in one epoch."""

    acting_set: type[ActingSet] = ActingSet

    def __init__(self, replica: Replica, state: SetState, version: int) -> None:
        self.replica = replica
        self.epoch = state.epoch
        self.version = version  # of the state that the store has, as far as is known
        self.is_over = False
        disk = replica.disk
        synced = disk.synced if replica.world.acks_synced else None
        self.acting = self.acting_set(replica.me, state, confirmed=replica.readable, end=disk.end, synced=synced)
        self.streams: dict[int, StreamEnd] = {}
        self._heard: dict[int, float] = {}
        self._began = replica.now
        self._parked: list[tuple[int, Record, asyncio.Future[bool]]] = []
        self._grew = asyncio.Event()
        self.move_confirmed()

    def end(self) -> None:
        """Stop acknowledging: what waits for a reply is unknown."""
        self.is_over = True
        for _, _, reply in self._parked:
            if not reply.done():
                reply.set_result(False)
        self._parked.clear()
        for stream in self.streams.values():
            stream.close()

    # --- records -----------------------------------------------------------------------------------------------------

    def append(self, value: int) -> asyncio.Future[bool]:
        record = Record(self.epoch, value)
        reply: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._parked.append((self.replica.disk.end, record, reply))
        self.replica.disk.log.append(record)
        self.note_own()
        self._grew.set()
        return reply

    def note_own(self) -> None:
        disk = self.replica.disk
        self.acting.note_end(disk.end)
        self.acting.note_own(disk.synced if self.replica.world.acks_synced else disk.end)
        self.move_confirmed()

    def move_confirmed(self) -> None:
        """Let readers and replies go as far as the acting set has the log."""
        if self.is_over:
            return
        confirmed = self.acting.confirmed
        if confirmed > self.replica.readable:
            self.replica.world.checker.promise(self.replica.me, self.epoch, confirmed, self.acting.possible)
        self.show(confirmed)
        while self._parked and self._parked[0][0] < self.acked_below():
            position, record, reply = self._parked.pop(0)
            self.replica.world.checker.ack(self.replica.me, self.epoch, position, record, self.acting.possible)
            if not reply.done():
                reply.set_result(True)

    def show(self, confirmed: int) -> None:
        self.replica.show(max(self.replica.readable, confirmed))

    def acked_below(self) -> int:
        return self.acting.confirmed

    # --- followers ---------------------------------------------------------------------------------------------------

    def takes(self, epoch: int) -> bool:
        """Return whether a follower that names this epoch is ours."""
        return epoch == self.epoch and not self.is_over

    async def serve(self, replica: int, stream: StreamEnd) -> None:
        old = self.streams.get(replica)
        if old is not None:
            old.close()
        self.streams[replica] = stream
        self.acting.begin_stream(replica)
        disk = self.replica.disk
        stream.send("welcome", self.epoch, disk.epochs, disk.end)
        sending: asyncio.Task[None] | None = None
        try:
            while True:
                _, position = await self.replica.receive(stream)
                if self.is_over or self.streams.get(replica) is not stream:
                    return
                self.acting.note_report(replica, position)
                self._heard[replica] = self.replica.now
                self.move_confirmed()
                if sending is None:
                    sending = self.replica.spawn(self._send(replica, stream, position))
        except (StreamEnded, ProtocolError):
            pass
        finally:
            stream.close()
            if self.streams.get(replica) is stream:
                del self.streams[replica]
                self.acting.begin_stream(replica)

    async def _send(self, replica: int, stream: StreamEnd, position: int) -> None:
        while not self.is_over and self.streams.get(replica) is stream:
            disk = self.replica.disk
            found = disk.epochs.at(position, disk.end)
            assert found is not None
            (number, start), stop = found
            records = disk.log[position : min(stop, position + MOST_RECORDS)]
            stream.send("chunk", number, start, position, records, self.acting.confirmed)
            position += len(records)
            await self.replica.gate()
            if position == disk.end:
                self._grew.clear()
                try:
                    async with self.replica.world.clock.timeout(HEARTBEAT_S * self.replica.rate):
                        await self._grew.wait()
                except TimeoutError:
                    continue

    # --- the set -----------------------------------------------------------------------------------------------------

    def wanted(self) -> SetProposal | None:
        now = self.replica.now
        gone = {one for one in self.acting.members if now - self._heard.get(one, self._began) > GRACE_S}
        return next_set(self.acting, gone, sorted(set(self.streams) - gone))

    async def tend_set(self) -> None:
        """Ask for another set, if one is wanted: without who is gone, with who has caught up."""
        proposal = self.wanted()
        if proposal is not None and proposal.needs_sync:
            await self.sync_confirmed()
            proposal = self.wanted()
        if proposal is None or self.is_over or not self.is_safe_to_ask(proposal):
            return
        state = self.acting.state.with_set(proposal.in_sync, 0)
        self.acting.propose(proposal.in_sync)
        outcome = await self.replica.of(self.ask(state))
        self.note_outcome(outcome, state)
        if outcome.verdict is Verdict.UNKNOWN:
            self.replica.world.has_unknown_change()
        if outcome.verdict is not Verdict.DONE:
            await self.replica.learn()

    async def sync_confirmed(self) -> None:
        await self.replica.sync()

    def is_safe_to_ask(self, proposal: SetProposal) -> bool:
        """Return whether what a leaving replica has acknowledged is on a medium."""
        return not proposal.needs_sync or self.replica.disk.synced >= self.acting.confirmed

    async def ask(self, state: SetState) -> ChangeOutcome:
        from tests.simulation.replica import STATE

        return await self.replica.member.change({STATE: self.version}, [Put(STATE, state.encode())])

    def note_outcome(self, outcome: ChangeOutcome, state: SetState) -> None:
        if outcome.verdict is Verdict.DONE and not self.is_over and outcome.revision > self.replica.version:
            self.replica.take_state(state, outcome.revision)

    def settle(self, state: SetState, version: int) -> None:
        """Take over a state of ours that is newer than the one we knew: older changes cannot come any more."""
        self.version = version
        self.acting.settle(state)
        self.replica.world.note(f"{self.replica.me} has set {sorted(state.in_sync)} in epoch {self.epoch}")
        self.move_confirmed()
