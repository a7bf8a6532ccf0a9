"""One replica of an elected set for as long as its daemon runs: learns who leads, follows it, campaigns, leads.

Decisions are in `broker/election`; this file asks the coordination store and acts. The log, and the broker that serves
it in its present role, are behind `Life` (life.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from ... import logs
from ...ambient import Clock, Random
from ...coordination.store import ABSENT, Coordination, CoordinationUnreachable, Put, Snapshot, Verdict
from ...errors import ConnectionLost
from ...model.wire_text import whole_number
from ..election.candidacy import (
    CampaignView,
    ReplicaSeen,
    campaign_rank,
    elected_state,
    founding_state,
    refusal,
)
from ..election.deposition import is_deposed
from ..election.joining import LogCut, cut_to_follow
from ..election.set_state import SetState, decode_state
from .life import Life
from .mastership import Mastership, Seat
from .presence import ReplicaPresence
from .seams import FollowedStream, MasterRefuses, Timings
from .set_keys import SetKeys

log = logs.get("pyromq.broker")

FOUNDER = 1  # the replica that makes the first state of a set
LEARN_AGAIN_S = 0.2
RESIGN_S = 1.0  # for the others to have all of the log, and for the store to hear of it
RESIGN_POLL_S = 0.005
REPEAT_S = 60.0  # between two lines that say the same

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class ElectedMember:
    """Event loop only. `loops` run until the daemon stops. `spawn` begins a task that ends with them.

    Invariant: `master` is there only while this replica may lead, as far as it knows."""

    mastership: type[Mastership] = Mastership

    def __init__(
        self,
        me: int,
        life: Life,
        coordination: Coordination,
        keys: SetKeys,
        clock: Clock,
        rng: Random,
        spawn: Spawn,
        *,
        minimum: int,
        timings: Timings,
    ) -> None:
        self.me, self.life, self.keys = me, life, keys
        self._coordination, self._clock, self._rng, self._spawn = coordination, clock, rng, spawn
        self._minimum, self._timings = minimum, timings
        self.presence = ReplicaPresence(coordination, keys, me, timings, self.own_seen)
        self.state: SetState | None = None
        self.version = ABSENT
        self.snapshot: Snapshot | None = None
        self.master: Mastership | None = None
        self.stream: FollowedStream | None = None
        self.following: asyncio.Task[None] | None = None
        self._connecting: int | None = None  # the epoch whose master is about to be followed, and has not answered yet
        self._heard_at = float("-inf")
        self._refused: tuple[int, float] | None = None  # the epoch whose master's port refused, and when
        self._may_follow = False  # of an amnesiac replica: the store knows that its log may grow
        self._limited = logs.Limited(log, clock, REPEAT_S)
        self._stirred = asyncio.Event()  # something changed that the next look should see at once

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs for as long as the daemon does."""
        return [self.keep_lease(), self.keep_watching(), self.keep_role()]

    # --- the store ---------------------------------------------------------------------------------------------------

    def own_seen(self) -> ReplicaSeen:
        """Return what is true of this replica now."""
        is_amnesiac = self.life.note.is_amnesiac
        return ReplicaSeen(
            self.life.epochs.newest, self.life.end, is_amnesiac, stands=is_amnesiac and not self._may_follow
        )

    async def keep_lease(self) -> None:
        """Say again and again that this replica is there, and that it leads; and look how the set is."""
        while True:
            with suppress(CoordinationUnreachable):
                lease = await self.presence.renew()
                await self.learn()
                master = self.master
                if master is not None and self._leader() != self.me:
                    mine = Put(self.keys.leader, b"%d" % self.me, lease)
                    await self._coordination.change({self.keys.state: master.version}, [mine])
            await self._clock.sleep(self._timings.renewal_s)

    async def keep_watching(self) -> None:
        """Read whenever something has changed."""
        async with aclosing(self._coordination.watch(self.keys.prefix, 1)) as watch:
            async for _ in watch:
                with suppress(CoordinationUnreachable):
                    await self.learn()

    async def learn(self) -> None:
        """Read the store, and give up a mastership that is over. Raises CoordinationUnreachable."""
        found = await self._coordination.read(self.keys.prefix)
        if self.snapshot is not None and found.revision < self.snapshot.revision:
            return
        self.snapshot = found
        self._stirred.set()
        state = found.keys.get(self.keys.state)
        if state is not None and state.version >= self.version:
            self.take_state(decode_state(state.value), state.version)

    def take_state(self, state: SetState, version: int) -> None:
        """Go by a state that the store has; older ones than the one known are no news."""
        if version < self.version:
            return
        self.state, self.version = state, version
        if self.stream is not None and not self.is_followed(self.stream):
            self.stream.close()  # of an earlier epoch: nothing more of it is taken, nothing more reported
        if self.master is not None and version > self.master.version:
            if is_deposed(self.me, self.master.epoch, state):
                self.depose()
            else:
                self.master.settle(state, version)

    def _leader(self) -> int | None:
        """Return who holds `leader`, as far as is known; None: nobody."""
        found = None if self.snapshot is None else self.snapshot.keys.get(self.keys.leader)
        return None if found is None else whole_number(found.value)

    # --- roles -------------------------------------------------------------------------------------------------------

    async def keep_role(self) -> None:
        """Do what this replica's role wants, again and again."""
        while True:
            await self._pause()
            with suppress(CoordinationUnreachable):
                await self.act()

    async def _pause(self) -> None:
        timings = self._timings
        await self._clock.sleep(timings.least_pause_s * self._rng.random())
        longest_s = timings.most_pause_s * (0.25 + 0.75 * self._rng.random())
        with suppress(TimeoutError):
            async with self._clock.timeout(longest_s):
                await self._stirred.wait()
        self._stirred.clear()

    async def act(self) -> None:
        """Do what this replica's role wants now. Raises CoordinationUnreachable."""
        if self.master is not None:
            await (self.resign() if self._should_give_way() else self.master.tend_set())
        elif self.state is None:
            await self._found()
        else:
            await self.life.give_way()
            self._follow_named()
            await self._campaign()

    async def _found(self) -> None:
        """Make the first state of the set, if nobody has."""
        if self.snapshot is not None and self.me == FOUNDER:
            await self._ask_to_lead(founding_state(self.me, self._minimum, self._clock.now_ms()), ABSENT, {})

    def _should_give_way(self) -> bool:
        """Return whether an administrator wants another replica as master, which can be it: it is in sync, and there.

        Only about when: what a master may do, and who may become one, is judged as ever."""
        if self.snapshot is None or self.state is None:
            return False
        wanted = self.keys.wanted_in(self.snapshot)
        return wanted != self.me and wanted in self.state.in_sync and wanted in self.keys.seen_in(self.snapshot)

    def depose(self) -> None:
        """Stop leading, at once."""
        assert self.master is not None
        now = self.state
        log.warning("this replica leads no more", epoch=self.master.epoch, now=now and now.epoch, by=now and now.master)
        self.master.end()
        self.master = None
        self._stirred.set()

    # --- campaigning -------------------------------------------------------------------------------------------------

    def view(self) -> CampaignView:
        """Return what this replica knows when it thinks of campaigning."""
        assert self.state is not None
        assert self.snapshot is not None
        now = self._clock.monotonic()
        epoch, refused_at = self._refused or (0, now)
        is_refused = epoch == self.state.epoch and now - refused_at < self._timings.refused_s
        return CampaignView(
            me=self.me,
            own=self.own_seen(),
            state=self.state,
            alive=self.keys.seen_in(self.snapshot),
            hears_master=self.stream is not None and now - self._heard_at < self._timings.silence_s,
            master_is_gone=self.keys.leader not in self.snapshot.keys or (self.stream is None and is_refused),
        )

    async def _campaign(self) -> None:
        if self.snapshot is None or refusal(self.view()) is not None or self._should_give_way():
            return
        await self._clock.sleep(self._timings.rank_s * campaign_rank(self.view()))
        await self.learn()
        if self.master is not None or refusal(self.view()) is not None:
            return
        self.leave_master()
        view, version = self.view(), self.version
        expected = self._entry_versions(view.state.in_sync)
        await self.sync_before_leading()
        await self._ask_to_lead(elected_state(view, self._clock.now_ms()), version, expected)

    def _entry_versions(self, members: frozenset[int]) -> dict[str, int]:
        """Return the versions of the entries by which this replica has judged that nobody has more."""
        assert self.snapshot is not None
        found = {key: self.snapshot.keys.get(key) for key in (self.keys.alive(replica) for replica in sorted(members))}
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
        await self.life.sync()

    async def _ask_to_lead(self, new: SetState, version: int, entries: dict[str, int]) -> None:
        """Ask for a state that makes this replica master. `entries`: versions by which an amnesiac one has judged."""
        puts, expect, lease = [Put(self.keys.state, new.encode())], {self.keys.state: version}, self.presence.lease
        if self.life.note.is_amnesiac:
            if lease is None:
                return
            puts.append(self.presence.entry(lease, self.own_seen()._replace(is_amnesiac=False, stands=False)))
            expect |= entries
        if lease is not None:
            puts.append(Put(self.keys.leader, b"%d" % self.me, lease))
        outcome = await self._coordination.change(expect, puts)
        if outcome.verdict is Verdict.DONE:
            self.take_state(new, outcome.revision)
        elif outcome.verdict is Verdict.UNKNOWN:
            await self.unknown_candidacy()
        if self._is_named(new.epoch):
            await self.adopt()

    def _is_named(self, epoch: int) -> bool:
        """Return whether the state says that this replica is master of that epoch."""
        return self.state is not None and (self.state.epoch, self.state.master) == (epoch, self.me)

    async def unknown_candidacy(self) -> None:
        """Read until the store answers: only what it shows now makes us master, before anything else happens here."""
        while True:
            try:
                return await self.learn()
            except CoordinationUnreachable:
                await self._clock.sleep(LEARN_AGAIN_S)

    async def adopt(self) -> None:
        """Begin to lead the epoch that the state has: its entry is on disk before its first record."""
        assert self.state is not None
        epoch = self.state.epoch
        await self.life.begin_epoch(epoch)
        if not self._is_named(epoch):
            return
        self.life.save_note(self.life.note.caught_up())
        seat = Seat(
            me=self.me,
            life=self.life,
            coordination=self._coordination,
            keys=self.keys,
            clock=self._clock,
            timings=self._timings,
            take_state=self.take_state,
            learn=self.learn,
        )
        self.master = master = self.mastership(seat, self.state, self.version)
        log.info("this replica leads", epoch=epoch, position=self.life.end, members=sorted(self.state.in_sync))
        try:
            await self.life.lead(master)
        except BaseException:
            if self.master is master:
                self.depose()
            raise

    async def resign(self) -> None:
        """Give way, if this replica leads: once others have all of the log, they are told to elect another master."""
        master = self.master
        if master is None:
            return
        master.leave()
        with suppress(TimeoutError, CoordinationUnreachable):
            async with self._clock.timeout(RESIGN_S):
                while master.confirmed < self.life.end and not master.is_over:
                    await self._clock.sleep(RESIGN_POLL_S)
                await self._coordination.change({self.keys.state: master.version}, deletes=[self.keys.leader])
        if self.master is master:
            self.depose()

    # --- following ---------------------------------------------------------------------------------------------------

    def _follow_named(self) -> None:
        named = self.followed_state()
        if named is None or named.master == self.me:
            return
        if self.following is None or self.following.done():
            self.following = self._spawn(self._follow(named))
        elif self._connecting is not None and self._connecting != named.epoch:
            self.following.cancel()  # a master that is cut off would be waited for, while another leads

    def followed_state(self) -> SetState | None:
        """Return the state whose master is followed: the one that the store has, as far as is known."""
        return self.state

    async def _follow(self, state: SetState) -> None:
        stream = None
        try:
            stream = self.stream = await self._connected(state)
            if not await self._may_follow_anybody():
                return
            found = self.cut_for(stream)
            if found is None or not self.is_followed(stream):
                return
            await self.life.cut(found)
            self._heard_at = self._clock.monotonic()
            if self.is_followed(stream):
                await self._take(stream)
        except (ConnectionLost, CoordinationUnreachable) as fault:
            if isinstance(fault, MasterRefuses):
                self._refused = state.epoch, self._clock.monotonic()
            why = str(fault) or type(fault).__name__
            self._limited.warning("the master cannot be followed now", master=state.master, epoch=state.epoch, why=why)
        finally:
            if stream is not None:
                stream.close()
            if self.stream is stream:
                self.stream = None
            self._may_follow = False
            self._stirred.set()

    async def _connected(self, state: SetState) -> FollowedStream:
        self._connecting = state.epoch
        try:
            return await self.life.connect(state.master, state.epoch)
        finally:
            self._connecting = None

    async def _may_follow_anybody(self) -> bool:
        """Return whether this replica may change its log: an amnesiac one says so first, and waits until it is done."""
        if not self.life.note.is_amnesiac or self._may_follow:
            return True
        self._may_follow = await self.presence.say_moving()
        return self._may_follow

    def cut_for(self, stream: FollowedStream) -> LogCut | None:
        """Return where the log has to be cut to follow this stream; None: it has to be seeded anew."""
        life = self.life
        return cut_to_follow(life.epochs, life.end, stream.epochs, stream.end, confirmed=life.readable)

    def is_followed(self, stream: FollowedStream) -> bool:
        """Return whether this is the stream of the master that the state names, of its epoch, and not given up."""
        return self.stream is stream and self.state is not None and self.state.epoch == stream.epoch

    async def _take(self, stream: FollowedStream) -> None:
        there = stream.end

        def heard() -> None:
            self._heard_at = self._clock.monotonic()
            if self.life.note.is_amnesiac and self.life.end >= there:
                self.life.save_note(self.life.note.caught_up())

        await stream.follow(lambda: self.is_followed(stream), heard)
