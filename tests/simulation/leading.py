"""The master's part of a simulated replica: the product's `Mastership` with streams to followers and parked replies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyromq.broker.elected.mastership import Mastership, Seat
from pyromq.broker.election.set_state import SetState
from pyromq.coordination.store import ChangeOutcome, Verdict
from pyromq.errors import ProtocolError
from tests.simulation.disk import Record
from tests.simulation.network import StreamEnd, StreamEnded

if TYPE_CHECKING:
    from tests.simulation.replica import Replica

MOST_RECORDS = 8


class SimulatedMastership(Mastership):
    """One replica's time as master, in one epoch, on an abstract log."""

    replica: Replica

    def __init__(self, seat: Seat, state: SetState, version: int) -> None:
        from tests.simulation.life import SimulatedLife

        assert isinstance(seat.life, SimulatedLife)
        self.replica = seat.life.replica
        super().__init__(seat, state, version)
        self._links: dict[int, StreamEnd] = {}
        self._parked: list[tuple[int, Record, asyncio.Future[bool]]] = []
        self._grew = asyncio.Event()
        self.move_confirmed()

    def end(self) -> None:
        super().end()
        for _, _, reply in self._parked:
            if not reply.done():
                reply.set_result(False)
        self._parked.clear()
        for link in self._links.values():
            link.close()

    def kill(self, *, power: bool) -> None:
        for link in self._links.values():
            link.vanish() if power else link.close()

    # --- records -----------------------------------------------------------------------------------------------------

    def append(self, value: int) -> asyncio.Future[bool]:
        record = Record(self.epoch, value)
        reply: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        disk = self.replica.disk
        self._parked.append((disk.end, record, reply))
        disk.log.append(record)
        self.note_own(disk.end, disk.synced)
        self._grew.set()
        return reply

    def move_confirmed(self) -> None:
        """Let readers and replies go as far as the acting set has the log."""
        super().move_confirmed()
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

    async def serve(self, replica: int, link: StreamEnd) -> None:
        old = self._links.get(replica)
        if old is not None:
            old.close()
        self._links[replica] = link
        self.begin_stream(replica)
        disk = self.replica.disk
        link.send("welcome", self.epoch, disk.epochs, disk.end)
        sending: asyncio.Task[None] | None = None
        try:
            while True:
                _, position = await self.replica.receive(link)
                if self._links.get(replica) is not link:
                    return
                self.note_report(replica, position)
                if sending is None:
                    sending = self.replica.spawn(self._send(link, position))
        except (StreamEnded, ProtocolError):
            pass
        finally:
            link.close()
            if self._links.get(replica) is link:
                del self._links[replica]
                self.end_stream(replica)

    async def _send(self, link: StreamEnd, position: int) -> None:
        while not self.is_over and not link.is_over:
            disk = self.replica.disk
            found = disk.epochs.at(position, disk.end)
            assert found is not None
            (number, start), stop = found
            records = disk.log[position : min(stop, position + MOST_RECORDS)]
            link.send("chunk", number, start, position, records, self.acting.confirmed)
            position += len(records)
            await self.replica.gate()
            if position == disk.end:
                self._grew.clear()
                try:
                    async with self.replica.world.clock.timeout(self.seat.timings.heartbeat_s * self.replica.rate):
                        await self._grew.wait()
                except TimeoutError:
                    continue

    # --- the set -----------------------------------------------------------------------------------------------------

    def note_outcome(self, outcome: ChangeOutcome, state: SetState) -> None:
        super().note_outcome(outcome, state)
        if outcome.verdict is Verdict.UNKNOWN:
            self.replica.world.has_unknown_change()

    def settle(self, state: SetState, version: int) -> None:
        self.replica.world.note(f"{self.replica.me} has set {sorted(state.in_sync)} in epoch {self.epoch}")
        super().settle(state, version)
