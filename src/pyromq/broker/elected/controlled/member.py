"""One replica of a set that a controller leads, for as long as its daemon runs: says that it is there, learns who is
master, and follows it or leads. Who may lead is the controller's decision; how that is done is `elected/set_member.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ....ambient import Clock, Random
from ....coordination.store import ChangeOutcome
from ....errors import CallFailed
from ....protocol.headers.namesrv import BrokerHeartbeat
from ...election.deposition import is_deposed
from ...election.joining import LogCut
from ...election.set_state import SetState
from ..identity import SetName
from ..life import Life
from ..mastership import Mastership, Seat
from ..seams import FollowedStream, Timings
from ..set_keys import ReplicaPlace
from ..set_member import SetMember, Spawn
from .controllers import Controllers, NamedMaster
from .mastership import ControlledMastership
from .settings import ControllerModeSettings

HANG_UP_S = 2.0  # for a master that has to make place for this replica
ELECT_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnReplica:
    """Who this replica is. `ha_address_of` asks a master for its HA port; CallFailed if it does not tell."""

    name: SetName
    address: str
    minimum: int
    settings: ControllerModeSettings
    ha_address_of: Callable[[str], Coroutine[Any, Any, str]]


class ControlledMember(SetMember):
    """Event loop only. An epoch is begun once: named for one that its log has already, this replica says nothing more
    to controllers until they have elected anew, since it may have lost what it acknowledged in it."""

    mastership = ControlledMastership

    def __init__(
        self,
        me: int,
        life: Life,
        controllers: Controllers,
        clock: Clock,
        rng: Random,
        spawn: Spawn,
        *,
        own: OwnReplica,
        timings: Timings,
    ) -> None:
        super().__init__(me, life, clock, rng, spawn, timings)
        self._controllers, self._own = controllers, own
        self.named: NamedMaster | None = None  # what a controller said last
        self.places: dict[int, ReplicaPlace] = {}
        self._followed = 0  # the replica whose stream there is, or was last
        self._elect_not_before = float("-inf")
        self._look = asyncio.Event()

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return what runs for as long as the daemon does."""
        return [self.keep_heard, self.keep_leader, self.keep_learning, self.keep_role]

    # --- the controllers ---------------------------------------------------------------------------------------------

    @property
    def is_silent(self) -> bool:
        """Return whether this replica is named master of an epoch that its log has already."""
        return self.master is None and self.state is not None and self._has_begun(self.state)

    def _has_begun(self, state: SetState) -> bool:
        is_without_master = self.named is not None and self.named.master is None
        return not is_without_master and state.master == self.me and state.epoch <= self.life.epochs.newest

    async def keep_heard(self) -> None:
        """Say again and again that this replica is there."""
        while True:
            if not self.is_silent:
                await self.say_alive()
            await self._clock.sleep(self._own.settings.broker_heartbeat_interval / 1000)

    async def say_alive(self) -> None:
        """Say to all controllers that this replica is there, and how far its log goes."""
        own, settings = self._own, self._own.settings
        await self._controllers.heartbeat(
            BrokerHeartbeat(
                cluster_name=own.name.cluster,
                broker_name=own.name.broker,
                broker_addr=own.address,
                broker_id=self.me,
                epoch=self.life.epochs.newest,
                max_offset=self.life.end,
                confirm_offset=self.life.readable,
                heartbeat_timeout_mills=settings.controller_heart_beat_timeout_mills,
                election_priority=settings.broker_election_priority,
            )
        )

    async def keep_leader(self) -> None:
        """Look again and again which controller leads."""
        while True:
            await self._clock.sleep(self._own.settings.sync_controller_metadata_period / 1000)
            with suppress(CallFailed):
                await self._controllers.find_leader()

    async def keep_learning(self) -> None:
        """Look again and again who is master, and where the replicas are."""
        while True:
            await self.learn()
            with suppress(TimeoutError):
                async with self._clock.timeout(self._own.settings.sync_broker_metadata_period / 1000):
                    await self._look.wait()
            self._look.clear()

    async def learn(self) -> None:
        """Ask who is master. A controller that does not answer changes nothing."""
        try:
            self.take_named(await self._controllers.named())
            if self.master is not None:
                self._note_members(await self._controllers.members())
        except CallFailed as fault:
            self._limited.warning("no controller says who is master", why=str(fault))

    def _note_members(self, addresses: dict[int, str]) -> None:
        for replica, address in addresses.items():
            known = self.places.get(replica)
            if known is None or known.address != address:
                self.places[replica] = ReplicaPlace(address, "", "")

    def take_named(self, named: NamedMaster) -> None:
        """Go by what a controller said, here or as a notice; older news than what is known is none."""
        known = self.named
        if known is not None and (named.epoch, named.set_epoch) < (known.epoch, known.set_epoch):
            return
        self.named = named
        self._stirred.set()
        state = named.state(self._own.minimum)
        if state is not None:
            self.take_state(state, named.set_epoch)
        elif self.master is not None and named.epoch > self.master.epoch:
            self.depose()  # the controller has taken this replica for dead, and found nobody else

    def take_state(self, state: SetState, version: int) -> None:
        """Go by a state that the controller has; its set's epoch is the version."""
        if self.state is not None and (state.epoch, version) < (self.state.epoch, self.version):
            return
        self.state, self.version = state, version
        if self.stream is not None and not self.is_followed(self.stream):
            self.stream.close()
        if self.master is None:
            return
        if is_deposed(self.me, self.master.epoch, state):
            self.depose()
        elif version > self.master.version:
            self.master.settle(state, version)

    # --- roles -------------------------------------------------------------------------------------------------------

    async def keep_role(self) -> None:
        """Do what this replica's role wants, again and again."""
        while True:
            await self._pause()
            await self.act()

    async def act(self) -> None:
        """Do what this replica's role wants now."""
        if self.master is not None:
            await self.master.tend_set()
        elif self.named is None:
            self._look.set()
        elif self.named.master is None or self.state is None:
            await self.life.give_way()
            await self._elect()
        elif self.state.master == self.me:
            await self._take_over(self.state)
        else:
            await self.life.give_way()
            await self._follow_master(self.state.master, self.named.address)

    async def _elect(self) -> None:
        """Ask for an election: the controller names whom it finds best, or nobody."""
        if self._clock.monotonic() < self._elect_not_before:
            return
        self._elect_not_before = self._clock.monotonic() + ELECT_AGAIN_S
        try:
            await self.say_alive()
            self.take_named(await self._controllers.elect(self.me))
        except CallFailed as fault:
            self._limited.warning("the set has no master", why=str(fault))
            await self.learn()

    async def _take_over(self, state: SetState) -> None:
        if self._has_begun(state):
            self._limited.warning(
                "the controller names this replica master of an epoch that it has begun before: it waits to be elected "
                "anew",
                epoch=state.epoch,
                newest=self.life.epochs.newest,
            )
            await self.life.give_way()
            return
        await self._let_master_go()
        self.leave_master()
        await self.life.sync()
        if self._is_named(state.epoch):
            await self.adopt()

    async def _let_master_go(self) -> None:
        """Take the rest of the old master's log until it hangs up: what it acknowledges meanwhile is here, too.

        Java's 5.5.0 acknowledges alone, for as long as it has not heard that it is deposed, if we hang up first."""
        if self.stream is None or self.following is None:
            return
        with suppress(TimeoutError):
            async with self._clock.timeout(HANG_UP_S):
                await asyncio.wait({self.following})

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
        return await self._controllers.alter_in_sync(self.me, state, version)

    async def announce_resignation(self, master: Mastership) -> None:
        """Say nothing: a controller elects as soon as this broker's connection ends, which is next."""

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow_master(self, master: int, address: str) -> None:
        place = self.places.get(master)
        if place is None or place.address != address or not place.ha_address:
            try:
                place = ReplicaPlace(address, await self._own.ha_address_of(address), "")
            except CallFailed as fault:
                self._limited.warning("the master does not say where its log is", master=address, why=str(fault))
                self._look.set()
                await self._clock.sleep(ELECT_AGAIN_S)
                return
            self.places[master] = place
        if self.following is None or self.following.done():
            self._followed = master
        self._follow_named()

    def cut_for(self, stream: FollowedStream) -> LogCut | None:
        found = super().cut_for(stream)
        if found is None:
            self._limited.warning(
                "this log has nothing in common with the master's, and does not follow it",
                own=str(self.life.epochs),
                masters=str(stream.epochs),
                remedy="move this store away: an empty replica gets everything from its master",
            )
        return found

    def is_followed(self, stream: FollowedStream) -> bool:
        """Return whether this stream is the named master's, or that of the one which this replica replaces.

        A Java master that has begun an epoch where the one before begins goes on under the older one."""
        if self.stream is not stream or self.state is None:
            return False
        return stream.epoch <= self.state.epoch and self.state.master in (self._followed, self.me)
