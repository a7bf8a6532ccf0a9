"""One simulated replica of an elected set: the rules of `broker/election` with a store, a network, a disk and a clock.

Between any two steps a replica may stand still: every await goes by `of`, which lets a pause fall there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from pyromq.broker.election.amnesia import BootNote, note_at_start
from pyromq.broker.election.candidacy import (
    CampaignView,
    ReplicaSeen,
    campaign_rank,
    elected_state,
    founding_state,
    refusal,
)
from pyromq.broker.election.deposition import is_deposed
from pyromq.broker.election.joining import LogCut, cut_to_follow
from pyromq.broker.election.set_state import SetState, decode_state
from pyromq.coordination.store import ABSENT, CoordinationUnreachable, Lease, Put, Snapshot, Verdict
from pyromq.protocol.replication.epochs import EpochList
from tests.simulation.disk import Record, ReplicaDisk
from tests.simulation.leading import Mastership
from tests.simulation.network import Refused, StreamEnd, StreamEnded

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")

PREFIX = "/pyromq/sim/a/"
STATE, LEADER, ALIVE = PREFIX + "state", PREFIX + "leader", PREFIX + "alive/"
TTL_S = 3.0
SILENCE_S = 1.5


class Replica:
    """One process after the other on one disk. Planted bugs are subclasses (planted.py)."""

    mastership: type[Mastership] = Mastership

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
        self.state: SetState | None = None
        self.version = ABSENT
        self.snapshot: Snapshot | None = None
        self.lease: Lease | None = None
        self.master: Mastership | None = None
        self.readable = 0
        self.stream: StreamEnd | None = None
        self.following: asyncio.Task[None] | None = None
        self.heard_at = self.refused_at = float("-inf")
        self.entries_expected: dict[str, int] = {}
        self.may_follow = False  # of an amnesiac replica: the store knows that its log may grow
        self.entry_version = ABSENT

    # --- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._forget()
        self.is_up = True
        self.disk.note = self.note_at_start()
        self.world.checker.restart(self.me)
        self.world.network.powered.add(self.me)
        self.world.network.listeners[self.me] = self._serve_stream
        for part in (self.keep_lease(), self.keep_watching(), self.keep_role(), self.keep_syncing()):
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
        streams = [self.stream, *(self.master.streams.values() if self.master else ())]
        for stream in streams:
            if stream is not None and power:
                stream.vanish()
            elif stream is not None:
                stream.close()
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
            async with self.world.clock.timeout(SILENCE_S * self.rate):
                message = await stream.receive()
        except TimeoutError:
            raise StreamEnded from None
        await self.gate()
        return message

    # --- the store ---------------------------------------------------------------------------------------------------

    def own_seen(self) -> ReplicaSeen:
        assert self.disk.note is not None
        is_amnesiac = self.disk.note.is_amnesiac
        stands = is_amnesiac and not self.may_follow
        return ReplicaSeen(self.disk.epochs.newest, self.disk.end, is_amnesiac, stands)

    def own_entry(self, lease: Lease, seen: ReplicaSeen) -> Put:
        return Put(f"{ALIVE}{self.me}", json.dumps(seen).encode(), lease)

    async def keep_lease(self) -> None:
        lease: Lease | None = None
        while True:
            try:
                if lease is not None and not await self.of(lease.renew()):
                    lease = self.lease = None
                if lease is None:
                    lease = self.lease = await self.of(self.member.hold(TTL_S))
                await self._say_alive(lease)
                master = self.master
                if master is not None:
                    mine = Put(LEADER, b"%d" % self.me, lease)
                    await self.of(self.member.change({STATE: master.version}, [mine]))
                await self.learn()
            except CoordinationUnreachable:
                pass
            await self.sleep(1.0)

    async def _say_alive(self, lease: Lease) -> None:
        """Write this replica's entry, by its version: one that was sent before may not come behind this one."""
        seen = self.own_seen()
        key = f"{ALIVE}{self.me}"
        expect = {key: self.entry_version}
        outcome = await self.of(self.member.change(expect, [self.own_entry(lease, seen)]))
        if outcome.verdict is Verdict.DONE:
            self.entry_version = outcome.revision
        else:
            found = (await self.of(self.member.read(key))).keys.get(key)
            self.entry_version = ABSENT if found is None else found.version

    async def _may_follow_anybody(self) -> bool:
        """Return whether this replica may change its log: an amnesiac one says so first, and waits until it is done."""
        assert self.disk.note is not None
        if not self.disk.note.is_amnesiac or self.may_follow:
            return True
        if self.lease is None:
            return False
        key = f"{ALIVE}{self.me}"
        found = (await self.of(self.member.read(key))).keys.get(key)
        version = ABSENT if found is None else found.version
        moving = self.own_seen()._replace(stands=False)
        outcome = await self.of(self.member.change({key: version}, [self.own_entry(self.lease, moving)]))
        if outcome.verdict is Verdict.DONE:
            self.entry_version, self.may_follow = outcome.revision, True
        return self.may_follow

    async def keep_watching(self) -> None:
        async with aclosing(self.member.watch(PREFIX, 1)) as watch:
            async for _ in watch:
                await self.gate()
                try:
                    await self.learn()
                except CoordinationUnreachable:
                    continue

    async def learn(self) -> None:
        """Read the store, and give up a mastership that is over."""
        found = await self.of(self.member.read(PREFIX))
        if self.snapshot is not None and found.revision < self.snapshot.revision:
            return
        self.snapshot = found
        state = found.keys.get(STATE)
        if state is None or state.version < self.version:
            return
        self.take_state(decode_state(state.value), state.version)

    def take_state(self, state: SetState, version: int) -> None:
        self.state, self.version = state, version
        if self.master is not None and version > self.master.version:
            if is_deposed(self.me, self.master.epoch, state):
                self.depose()
            else:
                self.master.settle(state, version)

    # --- roles -------------------------------------------------------------------------------------------------------

    async def keep_role(self) -> None:
        while True:
            await self.sleep(0.05 + self.world.rng.random() * 0.15)
            try:
                if self.master is not None:
                    await self.master.tend_set()
                elif self.state is None:
                    await self._found()
                else:
                    self._follow_named()
                    await self._campaign()
            except CoordinationUnreachable:
                pass

    async def _found(self) -> None:
        """Make the first state of the set, if nobody has."""
        if self.snapshot is None or self.me != 1:
            return
        new = founding_state(self.me, self.world.minimum, 0)
        await self._ask_to_lead(new, ABSENT)

    def _follow_named(self) -> None:
        named = self.followed_state()
        if named is not None and named.master != self.me and (self.following is None or self.following.done()):
            self.following = self.spawn(self._follow(named))

    def followed_state(self) -> SetState | None:
        """Return the state whose master is followed: the one that the store has, as far as is known."""
        return self.state

    def view(self) -> CampaignView:
        assert self.state is not None
        assert self.snapshot is not None
        keys = self.snapshot.keys
        alive = {
            int(key.removeprefix(ALIVE)): ReplicaSeen(*json.loads(found.value))
            for key, found in keys.items()
            if key.startswith(ALIVE)
        }
        is_refused = self.stream is None and self.now - self.refused_at < 1.0
        return CampaignView(
            me=self.me,
            own=self.own_seen(),
            state=self.state,
            alive=alive,
            hears_master=self.stream is not None and self.now - self.heard_at < SILENCE_S,
            master_is_gone=LEADER not in keys or is_refused,
        )

    async def _campaign(self) -> None:
        if self.snapshot is None or refusal(self.view()) is not None:
            return
        await self.sleep(0.3 * campaign_rank(self.view()))
        await self.learn()
        if self.master is None and refusal(self.view()) is None:
            self.leave_master()
            view, version = self.view(), self.version
            self.entries_expected = self._entry_versions(view.state.in_sync)
            await self.sync_before_leading()
            await self._ask_to_lead(elected_state(view, 0), version)

    def _entry_versions(self, members: frozenset[int]) -> dict[str, int]:
        """Return the versions of the entries by which this replica has judged that nobody has more."""
        assert self.snapshot is not None
        found = {f"{ALIVE}{replica}": self.snapshot.keys.get(f"{ALIVE}{replica}") for replica in sorted(members)}
        return {key: entry.version for key, entry in found.items() if entry is not None}

    def leave_master(self) -> None:
        """Close the stream from the old master: what it gets acknowledged by us is in our log by now."""
        if self.following is not None:
            self.following.cancel()
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    async def sync_before_leading(self) -> None:
        """Sync the log: who is left out of the new set may be the only other one that has what is in it."""
        await self.sync()

    async def _ask_to_lead(self, new: SetState, version: int) -> None:
        assert self.disk.note is not None
        puts = [Put(STATE, new.encode())]
        expect = {STATE: version}
        if self.disk.note.is_amnesiac:
            if self.lease is None:
                return
            whole = self.own_seen()._replace(is_amnesiac=False, stands=False)
            puts.append(self.own_entry(self.lease, whole))
            expect |= self.entries_expected
        if self.lease is not None:
            puts.append(Put(LEADER, b"%d" % self.me, self.lease))
        outcome = await self.of(self.member.change(expect, puts))
        if outcome.verdict is Verdict.DONE and outcome.revision > self.version:
            self.take_state(new, outcome.revision)
        elif outcome.verdict is Verdict.UNKNOWN:
            await self.unknown_candidacy()
        if self.state is not None and (self.state.epoch, self.state.master) == (new.epoch, self.me):
            self.adopt()

    async def unknown_candidacy(self) -> None:
        """Read until the store answers: only what it shows now makes us master, before anything else happens here."""
        while True:
            try:
                return await self.learn()
            except CoordinationUnreachable:
                await self.sleep(0.2)

    def adopt(self) -> None:
        """Become master of the epoch that the state has: its entry is on disk before its first record."""
        assert self.state is not None
        assert self.disk.note is not None
        self.save_epochs(self.begun_epochs(self.state.epoch))
        self.world.note(
            f"{self.me} leads epoch {self.state.epoch} from {self.disk.end} with {sorted(self.state.in_sync)}"
        )
        self.world.checker.lead(self.me)
        self.disk.note = self.disk.note.caught_up()
        self.master = self.mastership(self, self.state, self.version)
        self.world.has_new_master(self)

    def begun_epochs(self, epoch: int) -> EpochList:
        return self.disk.epochs.begun(epoch, self.disk.end)

    def save_epochs(self, epochs: EpochList) -> None:
        self.disk.save_epochs(epochs)

    def depose(self) -> None:
        assert self.master is not None
        self.world.note(f"{self.me} is deposed in epoch {self.master.epoch}")
        self.master.end()
        self.master = None

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow(self, state: SetState) -> None:
        stream = None
        try:
            stream = self.stream = await self.of(self.world.network.connect(self.me, state.master))
            stream.send("join", self.me, state.epoch)
            _, epoch, epochs, master_end = await self.receive(stream)
            if not await self._may_follow_anybody():
                return
            found = self.cut_for(epochs, master_end)
            if found is None or not self.is_followed(stream, epoch):
                return
            self.disk.cut(found.position, found.epochs)
            self.world.checker.cut(self.me, found.position)
            await self.gate()
            stream.send("report", await self._reported())
            while self.is_followed(stream, epoch):
                self.heard_at = self.now
                await self._take(stream, epoch, master_end, await self.receive(stream))
        except Refused:
            self.refused_at = self.now
        except (StreamEnded, CoordinationUnreachable):
            pass
        finally:
            if stream is not None:
                stream.close()
            if self.stream is stream:
                self.stream = None
            self.may_follow = False

    def cut_for(self, epochs: EpochList, master_end: int) -> LogCut | None:
        return cut_to_follow(self.disk.epochs, self.disk.end, epochs, master_end, confirmed=self.readable)

    def is_followed(self, stream: StreamEnd, epoch: int) -> bool:
        """Return whether this is the stream of the master that the state names, of its epoch, and not given up."""
        return self.stream is stream and self.state is not None and self.state.epoch == epoch

    async def _take(self, stream: StreamEnd, epoch: int, master_end: int, message: tuple[Any, ...]) -> None:
        _, number, start, position, records, confirmed = message
        if not self.is_followed(stream, epoch) or position != self.disk.end:
            raise StreamEnded
        self.save_epochs(self.disk.epochs.learned(number, start))
        self.disk.log += records
        self.show(self.told_readable(confirmed))
        assert self.disk.note is not None
        if self.disk.note.is_amnesiac and self.disk.end >= master_end:
            self.disk.note = self.disk.note.caught_up()
            self.world.checker.catch_up(self.me)
        await self.gate()
        stream.send("report", await self._reported())

    def told_readable(self, confirmed: int) -> int:
        return max(self.readable, min(confirmed, self.disk.end))

    async def _reported(self) -> int:
        if self.world.acks_synced:
            await self.sync()
            return self.disk.synced
        return self.disk.end

    def show(self, readable: int) -> None:
        """Let consumers read so far."""
        self.world.checker.move_readable(self.me, readable)
        self.readable = readable

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
                self.master.note_own()

    async def accept(self, stream: StreamEnd) -> None:
        try:
            _, replica, epoch = await self.receive(stream)
            master = self.master
            if master is not None and master.takes(epoch):
                await master.serve(replica, stream)
        except StreamEnded:
            pass
        finally:
            stream.close()

    def append(self, value: int) -> asyncio.Future[bool] | None:
        """Return what becomes True when the record is acknowledged, False when that is unknown. None: refused."""
        if self.master is None or self.master.acting.is_short or not self.is_up:
            return None
        return self.master.append(value)

    def records(self) -> list[Record]:
        return self.disk.log[: self.readable]
