"""A simulated replica's log and role, as the product's `Member` sees them: an abstract log instead of a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyromq.broker.elected.mastership import Mastership
from pyromq.broker.election.amnesia import BootNote
from pyromq.broker.election.joining import LogCut
from pyromq.protocol.replication.epochs import EpochList
from tests.simulation.network import StreamEnd, StreamEnded

if TYPE_CHECKING:
    from tests.simulation.replica import Replica


class SimulatedLife:
    """Implements `Life`. A change of roles takes a moment, as it does where a broker is closed and opened."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._stream: StreamEnd | None = None
        self.is_leading = False

    @property
    def replica(self) -> Replica:
        return self._replica

    @property
    def end(self) -> int:
        return self._replica.disk.end

    @property
    def synced(self) -> int:
        return self._replica.disk.synced

    @property
    def readable(self) -> int:
        return self._replica.readable

    @property
    def epochs(self) -> EpochList:
        return self._replica.disk.epochs

    @property
    def note(self) -> BootNote:
        assert self._replica.disk.note is not None
        return self._replica.disk.note

    @property
    def acks_synced(self) -> bool:
        return self._replica.world.acks_synced

    def save_note(self, note: BootNote) -> None:
        has_caught_up = self.note.is_amnesiac and not note.is_amnesiac
        self._replica.disk.note = note
        if has_caught_up:
            self._replica.world.checker.catch_up(self._replica.me)

    async def sync(self) -> None:
        await self._replica.sync()

    async def connect(self, master: int, epoch: int) -> SimulatedMasterStream:
        replica = self._replica
        end = self._stream = await replica.world.network.connect(replica.me, master)
        try:
            await replica.gate()
            end.send("join", replica.me, epoch)
            _, found, epochs, master_end = await replica.receive(end)
        except BaseException:
            end.close()
            raise
        return SimulatedMasterStream(replica, end, found, epochs, master_end)

    async def cut(self, cut: LogCut) -> None:
        self._replica.disk.cut(cut.position, cut.epochs)
        self._replica.world.checker.cut(self._replica.me, cut.position)
        await self._replica.gate()

    async def begin_epoch(self, epoch: int) -> None:
        replica = self._replica
        await replica.of(replica.world.clock.sleep(replica.world.rng.random() * 0.02))
        replica.save_epochs(replica.begun_epochs(epoch))
        replica.world.note(f"{replica.me} begins epoch {epoch} at {replica.disk.end}")
        replica.world.checker.lead(replica.me, epoch)

    async def lead(self, mastership: Mastership) -> None:
        replica = self._replica
        replica.world.note(f"{replica.me} leads epoch {mastership.epoch} with {sorted(mastership.acting.members)}")
        replica.world.has_new_master(replica)
        await replica.of(replica.world.clock.sleep(replica.world.rng.random() * 0.05))
        self.is_leading = not mastership.is_over

    async def give_way(self) -> None:
        if self.is_leading:
            self.is_leading = False
            await self._replica.of(self._replica.world.clock.sleep(self._replica.world.rng.random() * 0.05))

    def kill(self, *, power: bool) -> None:
        if self._stream is not None:
            self._stream.vanish() if power else self._stream.close()


class SimulatedMasterStream:
    """Implements `FollowedStream`."""

    def __init__(self, replica: Replica, end: StreamEnd, epoch: int, epochs: EpochList, master_end: int) -> None:
        self._replica, self.link = replica, end
        self.epoch, self.epochs, self.end = epoch, epochs, master_end

    def close(self) -> None:
        self.link.close()

    async def follow(self, is_followed: Callable[[], bool], heard: Callable[[], None]) -> None:
        replica, disk = self._replica, self._replica.disk
        self.link.send("report", await self.reported())
        while is_followed():
            _, number, start, position, records, confirmed = await replica.receive(self.link)
            if not is_followed() or position != disk.end:
                raise StreamEnded("this is not the place")
            replica.save_epochs(disk.epochs.learned(number, start))
            disk.log += records
            replica.show(replica.told_readable(confirmed))
            heard()
            await replica.gate()
            self.link.send("report", await self.reported())

    async def reported(self) -> int:
        if self._replica.world.acks_synced:
            await self._replica.sync()
            return self._replica.disk.synced
        return self._replica.disk.end
