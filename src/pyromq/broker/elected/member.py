"""One replica of an elected set for as long as its daemon runs: learns who leads, follows it, campaigns, leads.

Decisions are in `broker/election`; this file asks the coordination store and acts. How a replica follows and leads,
once that is decided, is in `set_member.py`.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import Any

from ... import logs
from ...ambient import Clock, Random
from ...coordination.store import ABSENT, ChangeOutcome, Coordination, CoordinationUnreachable, Put, Snapshot, Verdict
from ...model.wire_text import whole_number
from ..election.candidacy import (
    CampaignView,
    ReplicaSeen,
    campaign_rank,
    elected_state,
    founding_state,
    is_missed,
    refusal,
)
from ..election.deposition import is_deposed
from ..election.set_state import SetState, decode_state
from .life import Life
from .mastership import Mastership, Seat
from .presence import ReplicaPresence
from .seams import Timings
from .set_keys import SetKeys
from .set_member import SetMember, Spawn

log = logs.get("pyromq.broker")

FOUNDER = 1  # the replica that makes the first state of a set
LEARN_AGAIN_S = 0.2


class ElectedMember(SetMember):
    """Event loop only. `loops` run until the daemon stops. `spawn` begins a task that ends with them."""

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
        super().__init__(me, life, clock, rng, spawn, timings)
        self.keys, self._coordination, self._minimum = keys, coordination, minimum
        self.presence = ReplicaPresence(coordination, keys, me, timings, self.own_seen)
        self.snapshot: Snapshot | None = None

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs for as long as the daemon does."""
        return [self.keep_lease(), self.keep_watching(), self.keep_role()]

    # --- the store ---------------------------------------------------------------------------------------------------

    def own_seen(self) -> ReplicaSeen:
        """Return what is true of this replica now."""
        is_amnesiac = self.life.note.is_amnesiac
        return ReplicaSeen(
            self.life.epochs.newest,
            self.life.end,
            is_amnesiac,
            stands=is_amnesiac and not self._may_follow,
            misses=self._missed_epoch(),
        )

    def _missed_epoch(self) -> int:
        """Return the epoch whose master was followed here and is heard no more; 0: there is none."""
        is_missed = (
            self.state is not None
            and self.stream is None
            and self._followed_epoch == self.state.epoch
            and self._clock.monotonic() - self._heard_at >= self._timings.missed_s
        )
        return self._followed_epoch if is_missed else 0

    async def keep_lease(self) -> None:
        """Say again and again that this replica is there, and that it leads; and look how the set is."""
        while True:
            try:
                lease = await self.presence.renew()
                await self.learn()
                master = self.master
                if master is not None and self._leader() != self.me:
                    mine = Put(self.keys.leader, b"%d" % self.me, lease)
                    await self._coordination.change({self.keys.state: master.version}, [mine])
            except CoordinationUnreachable:
                await self._clock.sleep(LEARN_AGAIN_S)  # the lease goes on running out
            else:
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

    async def act(self) -> None:
        """Do what this replica's role wants now. Raises CoordinationUnreachable."""
        if self.master is not None:
            await (self.resign() if self._should_give_way() else self.master.tend_set())
        elif self.state is None:
            await self._found()
        else:
            await self.life.give_way()
            self._follow_named()
            await self._say_whom_it_misses()
            await self._campaign()

    async def _say_whom_it_misses(self) -> None:
        """Tell the others at once that the master is heard no more, or again: they may be waiting for that word."""
        said = self.presence.said
        if said is not None and said.misses != self._missed_epoch():
            await self.presence.say_now()

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

    # --- campaigning -------------------------------------------------------------------------------------------------

    def view(self) -> CampaignView:
        """Return what this replica knows when it thinks of campaigning."""
        assert self.state is not None
        assert self.snapshot is not None
        now = self._clock.monotonic()
        epoch, refused_at = self._refused or (0, now)
        is_refused = epoch == self.state.epoch and now - refused_at < self._timings.refused_s
        alive = self.keys.seen_in(self.snapshot)
        return CampaignView(
            me=self.me,
            own=self.own_seen(),
            state=self.state,
            alive=alive,
            hears_master=self.stream is not None and now - self._heard_at < self._timings.silence_s,
            master_is_gone=self.keys.leader not in self.snapshot.keys
            or (self.stream is None and is_refused)
            or is_missed(self.state, alive),
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

    async def unknown_candidacy(self) -> None:
        """Read until the store answers: only what it shows now makes us master, before anything else happens here."""
        while True:
            try:
                return await self.learn()
            except CoordinationUnreachable:
                await self._clock.sleep(LEARN_AGAIN_S)

    def seat(self) -> Seat:
        return Seat(
            me=self.me,
            life=self.life,
            ask=self._ask_for_set,
            clock=self._clock,
            timings=self._timings,
            take_state=self.take_state,
            learn=self.learn,
        )

    async def _ask_for_set(self, state: SetState, version: int) -> ChangeOutcome:
        return await self._coordination.change({self.keys.state: version}, [Put(self.keys.state, state.encode())])

    async def announce_resignation(self, master: Mastership) -> None:
        await self._coordination.change({self.keys.state: master.version}, deletes=[self.keys.leader])

    # --- following ---------------------------------------------------------------------------------------------------

    async def _may_follow_anybody(self) -> bool:
        """Return whether this replica may change its log: an amnesiac one says so first, and waits until it is done."""
        if not self.life.note.is_amnesiac or self._may_follow:
            return True
        self._may_follow = await self.presence.say_moving()
        return self._may_follow
