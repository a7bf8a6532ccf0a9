"""One simulated replica of an elected set: the product's `ElectedMember` with store, network, disk and clock of ours.

Between any two steps a replica may stand still: every await of the member passes `gate`, where a pause may fall.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from pyromq.ambient import Timer
from pyromq.broker.elected.member import ElectedMember
from pyromq.broker.elected.seams import Timings
from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.election.amnesia import BootNote, note_at_start
from pyromq.coordination.store import ChangeOutcome, Lease, Put, Snapshot
from pyromq.protocol.replication.epochs import EpochList
from tests.simulation.disk import Record, ReplicaDisk
from tests.simulation.leading import SimulatedMastership
from tests.simulation.life import SimulatedLife
from tests.simulation.network import StreamEnd, StreamEnded

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")

KEYS = SetKeys("/pyromq/sim/a/")
TIMINGS = Timings()


class Replica(ElectedMember):
    """One process after the other on one disk. Planted bugs are subclasses (planted.py)."""

    mastership = SimulatedMastership
    master: SimulatedMastership | None
    life: SimulatedLife

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.me = number
        self.disk = ReplicaDisk(number)
        self.member = world.store.member(str(number))
        self.paused_until = 0.0
        self.rate = 1.0  # of its clock: seconds that it takes for one
        self.is_up = False
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order: the same seed takes the same steps
        self._forget()

    def _forget(self) -> None:
        """Begin with what a process knows at its start."""
        self.readable = 0
        world, clock = self.world, ReplicaClock(self)
        ElectedMember.__init__(
            self, self.me, SimulatedLife(self), GatedCoordination(self), KEYS, clock, world.rng, self.spawn,
            minimum=world.minimum, timings=TIMINGS,
        )  # fmt: skip

    # --- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._forget()
        self.is_up = True
        self.disk.note = self.note_at_start()
        self.world.checker.restart(self.me)
        self.world.network.powered.add(self.me)
        self.world.network.listeners[self.me] = self._serve_stream
        for part in (*self.loops(), self.keep_syncing()):
            self.spawn(part)

    def _serve_stream(self, stream: StreamEnd) -> None:
        self.spawn(self.accept(stream))

    def note_at_start(self) -> BootNote:
        return note_at_start(self.disk.note, self.disk.boot, acks_synced=self.world.acks_synced)

    def kill(self, *, power: bool) -> None:
        """End the process, or the machine: then nobody hears of it, and what was not synced may go."""
        self.is_up = False
        self.world.network.listeners.pop(self.me, None)
        for task in list(self._tasks):
            task.cancel()
        self._tasks.clear()
        self.life.kill(power=power)
        if self.master is not None:
            self.master.kill(power=power)
        self.master = None
        if power:
            self.world.network.powered.discard(self.me)
            before = list(self.disk.log)
            self.disk.lose_power(self.world.rng)
            self.world.checker.lose_power(self.me, before, acks_synced=self.world.acks_synced)

    def spawn(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.world.spawn(part)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    async def gate(self) -> None:
        """Stand still here, if this replica is paused or chance wants it."""
        while self.paused_until > self.now:
            await self.world.clock.sleep(self.paused_until - self.now)
        if self.world.rng.random() < self.world.hiccups:
            await self.world.clock.sleep(self.world.rng.random() ** 3 * 4)

    async def of(self, awaited: Awaitable[T]) -> T:
        found = await awaited
        await self.gate()
        return found

    async def sleep(self, seconds: float) -> None:
        await self.of(self.world.clock.sleep(seconds * self.rate))

    async def receive(self, stream: StreamEnd) -> tuple[Any, ...]:
        """Return the next message. StreamEnded: also for a stream that is silent."""
        try:
            async with self.world.clock.timeout(TIMINGS.silence_s * self.rate):
                message = await stream.receive()
        except TimeoutError:
            raise StreamEnded("silent") from None
        await self.gate()
        return message

    async def _pause(self) -> None:
        await self.of(super()._pause())

    # --- what bugs change ---------------------------------------------------------------------------------------------

    def begun_epochs(self, epoch: int) -> EpochList:
        return self.disk.epochs.begun(epoch, self.disk.end)

    def save_epochs(self, epochs: EpochList) -> None:
        self.disk.save_epochs(epochs)

    def told_readable(self, confirmed: int) -> int:
        return max(self.readable, min(confirmed, self.disk.end))

    def show(self, readable: int) -> None:
        """Let consumers read so far."""
        self.world.checker.move_readable(self.me, readable)
        self.readable = readable

    def depose(self) -> None:
        assert self.master is not None
        self.world.note(f"{self.me} is deposed in epoch {self.master.epoch}")
        super().depose()

    # --- the disk and clients ----------------------------------------------------------------------------------------

    async def sync(self) -> None:
        end, cuts = self.disk.end, self.disk.cuts
        await self.of(self.world.clock.sleep(self.world.rng.random() * 0.01))
        self.disk.note_synced(end, cuts)

    async def keep_syncing(self) -> None:
        while True:
            await self.sleep(0.02 if self.world.acks_synced else self.world.flush_s * (1 + self.world.rng.random()))
            await self.sync()
            if self.master is not None:
                self.master.note_own(self.disk.end, self.disk.synced)

    async def accept(self, stream: StreamEnd) -> None:
        try:
            _, replica, epoch = await self.receive(stream)
            master = self.master
            if master is not None and self.life.is_leading and master.takes(epoch):
                await master.serve(replica, stream)
        except StreamEnded:
            pass
        finally:
            stream.close()

    def append(self, value: int) -> asyncio.Future[bool] | None:
        """Return what becomes True when the record is acknowledged, False when that is unknown. None: refused."""
        if self.master is None or self.master.is_short or not self.is_up or not self.life.is_leading:
            return None
        return self.master.append(value)

    def records(self) -> list[Record]:
        return self.disk.log[: self.readable]


class ReplicaClock:
    """A replica's clock: it may run at another rate, and each sleep of the replica may last longer."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self._replica.now

    async def sleep(self, seconds: float) -> None:
        await self._replica.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self._replica.world.clock.call_later(seconds * self._replica.rate, callback, *args)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return self._replica.world.clock.timeout(None if seconds is None else seconds * self._replica.rate)


class GatedLease:
    """A lease of a replica that may stand still behind each answer."""

    def __init__(self, replica: Replica, lease: Lease) -> None:
        self._replica, self.lease = replica, lease

    @property
    def ttl_s(self) -> float:
        return self.lease.ttl_s

    async def renew(self) -> bool:
        return await self._replica.of(self.lease.renew())

    async def release(self) -> None:
        await self._replica.of(self.lease.release())


class GatedCoordination:
    """The store's twin, for a replica that may stand still behind each answer."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def read(self, prefix: str) -> Snapshot:
        return await self._replica.of(self._replica.member.read(prefix))

    async def change(
        self, expect: Mapping[str, int], puts: Sequence[Put] = (), deletes: Collection[str] = ()
    ) -> ChangeOutcome:
        own = [put._replace(lease=put.lease.lease) if isinstance(put.lease, GatedLease) else put for put in puts]
        return await self._replica.of(self._replica.member.change(expect, own, deletes))

    async def hold(self, ttl_s: float) -> Lease:
        return GatedLease(self._replica, await self._replica.of(self._replica.member.hold(ttl_s)))

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[int]:
        async for revision in self._replica.member.watch(prefix, after):
            await self._replica.gate()
            yield revision
