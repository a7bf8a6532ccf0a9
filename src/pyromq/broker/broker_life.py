"""The lives of a broker in an elected set: one after the other on one disk, each opened in one role.

A change of roles is a restart without the process: the `Broker` is closed and opened again, so that what a crash is
tested to survive serves here, too. The ports stay open meanwhile: who connects waits for the next life.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from .. import logs
from ..ambient import Clock, Random, RunBlocking
from ..audit.log import AuditLog
from ..config import Loaded
from ..errors import ConnectionLost, PyroError
from ..machine.budget import Budget
from ..machine.garbage import uncollected
from ..protocol.bodies.replication import SyncStateSet
from ..protocol.headers.replication import ElectedMaster
from ..protocol.replication.epochs import EpochList
from ..store.cutting import begin_cut, plan_cut
from ..store.epochs import EpochFile
from ..store.files.disk import Disk
from ..store.log.thread_flusher import ThreadFlusher
from ..store.message_store import MessageStore
from ..store.recovery.claim import claimed
from ..transport.client import Connect
from ..transport.settings import TransportSettings
from .broker import Broker
from .config import BrokerConfig
from .elected.boot_notes import save_boot_note
from .elected.mastership import Mastership
from .elected.role import ElectedRole, FollowedReplica
from .elected.seams import MasterRefuses, Timings
from .elected.set_keys import ReplicaPlace
from .election.amnesia import BootNote
from .election.joining import LogCut
from .replication.following.elected_follower import JoinedStream, join
from .replication.following.follower import FollowSettings
from .replication.following.stream_ends import PortRefuses
from .replication.settings import BrokerRole
from .replication.stream_tls import follower_connect
from .wiring.listeners import Ports

log = logs.get("pyromq.broker")


class ClosedLog(NamedTuple):
    """From where to where a log goes that is closed."""

    start: int
    end: int


@dataclasses.dataclass(slots=True, kw_only=True)
class LifeParts:
    """What all lives of one process stand on. `ports` are bound; those of followers listen already."""

    loaded: Loaded[BrokerConfig]
    clock: Clock
    rng: Random
    disk: Disk
    flusher: Callable[[], ThreadFlusher | None]  # of one life
    run_blocking: RunBlocking
    budget: Callable[[], Budget]  # of one life
    connect: Connect
    ports: Ports
    timings: Timings
    places: Callable[[], dict[int, ReplicaPlace]]
    note: BootNote
    audit: AuditLog | None = None
    told: Callable[[ElectedMaster, SyncStateSet], None] | None = None  # what a controller says; None: there is none


class BrokerLife:
    """Implements `Life`. Event loop only. `failed` gets the fault of a loop that nobody supervises."""

    def __init__(self, parts: LifeParts, me: int) -> None:
        self._parts, self._me = parts, me
        self._turn = asyncio.Lock()  # one change of roles at a time
        self._broker: Broker | None = None
        self._mastership: Mastership | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._bounds, self._readable, self._synced = ClosedLog(0, 0), 0, 0
        self._epochs: EpochFile | None = None
        self.followed = FollowedReplica()
        config = parts.loaded.config
        transport, ha_tls = config.part(TransportSettings), config.replication.ha_tls
        self._connect_to_master = follower_connect(parts.connect, parts.clock, transport, ha_tls)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        """Return the present life. There is one except within a change of roles."""
        assert self._broker is not None
        return self._broker

    @property
    def is_open(self) -> bool:
        """Return whether a broker serves now: there is none within a change of roles."""
        return self._broker is not None

    @property
    def store(self) -> MessageStore:
        return self.broker.store

    @property
    def end(self) -> int:
        return self._bounds.end if self._broker is None else self._broker.store.commit_log.end

    @property
    def synced(self) -> int:
        return self._synced if self._broker is None else self._broker.store.flushed.value

    @property
    def readable(self) -> int:
        return self._readable if self._broker is None else self._broker.store.readable.value

    @property
    def epochs(self) -> EpochList:
        return EpochList() if self._epochs is None else self._epochs.list

    @property
    def note(self) -> BootNote:
        return self._parts.note

    @property
    def acks_synced(self) -> bool:
        return self._parts.note.acks_synced

    def save_note(self, note: BootNote) -> None:
        if note != self._parts.note:
            save_boot_note(self._parts.disk, note)
            self._parts.note = note

    async def sync(self) -> None:
        async with self._turn:
            await self.store.flush_log()

    # --- roles --------------------------------------------------------------------------------------------------------

    async def open(self) -> str:
        """Begin as a follower; return the address that clients are given."""
        async with self._turn:
            return await self._open(None)

    async def begin_epoch(self, epoch: int) -> None:
        async with self._turn:
            await self._close()
            with claimed(self._parts.disk):
                self._epochs = EpochFile(self._parts.disk, self._bounds)
                self._epochs.begin(epoch)

    async def lead(self, mastership: Mastership) -> None:
        async with self._turn:
            await self._open(mastership)

    async def give_way(self) -> None:
        if self._broker is not None and self._mastership is None:
            return
        async with self._turn:
            await self._close()
            await self._open(None)

    async def cut(self, cut: LogCut) -> None:
        if cut.position >= self.end or self._bounds_now.start == self.end:
            return
        await asyncio.shield(asyncio.get_running_loop().create_task(self._cut(cut)))

    async def _cut(self, cut: LogCut) -> None:
        parts = self._parts
        async with self._turn:
            await self._close()
            config = parts.loaded.config

            def act() -> None:
                with claimed(parts.disk):
                    begin_cut(parts.disk, config, plan_cut(parts.disk, config, cut.position), cut.epochs)

            log.warning(
                "this log has an end that the master's has not: it is cut",
                position=cut.position,
                bytes=self._bounds.end - cut.position,
                lost_confirmed=cut.lost_confirmed,
            )
            await parts.run_blocking(act)
            await self._open(None)

    async def close(self) -> None:
        """End the present life for good."""
        async with self._turn:
            await self._close(is_leaving=True)
            self.save_note(self.note.stopped())

    async def _open(self, mastership: Mastership | None) -> str:
        parts = self._parts
        self.followed = FollowedReplica()
        role = ElectedRole(
            me=self._me,
            epochs=self.epochs,
            members=lambda: [place.address for place in parts.places().values()],
            mastership=mastership,
            followed=self.followed,
            epochs_now=lambda: self.epochs,
            told=parts.told,
        )
        with uncollected():
            broker = await Broker.open(
                self._in_role(is_master=mastership is not None),
                clock=parts.clock,
                rng=parts.rng,
                disk=parts.disk,
                flusher=parts.flusher(),
                run_blocking=parts.run_blocking,
                connect=parts.connect,
                budget=parts.budget(),
                ports=parts.ports.copied(),
                elected=role,
                audit=parts.audit,
            )
        self._broker, self._mastership = broker, mastership
        self._show_what_was_shown(broker.store)
        self._epochs = EpochFile(parts.disk, broker.store.commit_log)
        if mastership is not None:
            self._keep(self._begin_to_lead(broker))  # which waits for members, whose set is tended meanwhile
            return broker.address
        address = await broker.start()
        for loop in broker.loops():
            self._keep(loop)
        return address

    def _show_what_was_shown(self, store: MessageStore) -> None:
        """Keep readable what an earlier life of this process has shown.

        The checkpoint may say less: it names the end of what came in one piece, and the set may have confirmed a part
        of such a piece. A reader would be held, or be told that its offset is beyond the end."""
        self._readable = min(self._readable, store.commit_log.end)  # less: that was cut off, and may not count again
        if self._readable > store.readable.value:
            store.confirm(self._readable)

    async def _begin_to_lead(self, broker: Broker) -> None:
        await broker.start()
        for loop in broker.loops():
            self._keep(loop)

    def _keep(self, loop: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(loop)
        self._tasks.append(task)
        task.add_done_callback(self._ended)

    def _in_role(self, *, is_master: bool) -> Loaded[BrokerConfig]:
        loaded, heartbeat_ms = self._parts.loaded, int(self._parts.timings.heartbeat_s * 1000)
        role = {"broker_role": BrokerRole.SYNC_MASTER if is_master else BrokerRole.SLAVE}
        number = {"broker_id": 0 if is_master else self._me, "ha_send_heartbeat_interval": heartbeat_ms}
        return Loaded(dataclasses.replace(loaded.config, **role, **number), loaded.findings)  # type: ignore[arg-type]

    async def _close(self, *, is_leaving: bool = False) -> None:
        broker = self._broker
        if broker is None:
            return
        self.followed.end("this replica changes its role")
        for task in self._tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._readable = max(self._readable, broker.store.readable.value)
        with uncollected():
            await broker.stop(is_leaving=is_leaving)
        commit_log = broker.store.commit_log
        self._bounds = ClosedLog(commit_log.start, commit_log.end)
        self._synced = self._bounds.end
        self._broker = self._mastership = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None and not self.failed.done():
            self.failed.set_exception(fault)

    @property
    def _bounds_now(self) -> ClosedLog:
        if self._broker is None:
            return self._bounds
        return ClosedLog(self._broker.store.commit_log.start, self._broker.store.commit_log.end)

    # --- following ----------------------------------------------------------------------------------------------------

    async def connect(self, master: int, epoch: int) -> LifeStream:
        place = self._parts.places().get(master)
        if place is None:
            raise ConnectionLost(f"the coordination store does not say where replica {master} is")
        timings = self._parts.timings
        settings = FollowSettings(
            heartbeat_s=timings.heartbeat_s, silence_s=timings.silence_s, after_flush=self.acks_synced
        )
        try:
            stream = await join(self._connect_to_master, place.ha_address, self._me, self._parts.clock, settings)
        except PyroError as fault:
            self.followed.end(f"the master cannot be followed: {fault}")
            if isinstance(fault, PortRefuses):
                raise MasterRefuses(str(fault)) from None
            raise
        return LifeStream(self, stream, place)

    async def take(self, stream: JoinedStream, place: ReplicaPlace, heard: Callable[[], None]) -> None:
        """Follow a stream with the present life's store, until it ends."""
        assert self._epochs is not None
        followed, store, tables = self.followed, self.store, self.broker.follower_tables
        followed.begin(place, stream.times)

        def stirred() -> None:
            if tables is not None:
                tables.following.confirm(store.readable.value)
            heard()

        why = "the stream of the master has ended"
        try:
            await stream.follow(store, self._epochs, stirred)
        except PyroError as fault:
            why = f"the stream of the master has ended: {fault}"
            raise
        finally:
            followed.end(why)


@dataclasses.dataclass(slots=True, eq=False)
class LifeStream:
    """Implements `FollowedStream`."""

    life: BrokerLife
    stream: JoinedStream
    place: ReplicaPlace

    @property
    def epoch(self) -> int:
        return self.stream.epoch

    @property
    def epochs(self) -> EpochList:
        return self.stream.epochs

    @property
    def end(self) -> int:
        return self.stream.end

    async def follow(self, is_followed: Callable[[], bool], heard: Callable[[], None]) -> None:
        """Follow until the stream ends. The member closes it as soon as it is not to be followed any more."""
        if is_followed():
            await self.life.take(self.stream, self.place, heard)

    def close(self) -> None:
        self.stream.close()
