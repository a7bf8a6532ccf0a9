"""What every member of a set does, whoever decides who leads it: follows the master that the state names, and leads.

`member.py` decides with the others over the coordination store; `controlled/` goes by what a controller says.
The log, and the broker that serves it in its present role, are behind `Life` (life.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ... import logs
from ...ambient import Clock, Random
from ...coordination.store import ABSENT, CoordinationUnreachable
from ...errors import ConnectionLost
from ..election.joining import LogCut, cut_to_follow
from ..election.set_state import SetState
from .life import Life
from .mastership import Mastership, Seat
from .seams import FollowedStream, MasterRefuses, Timings

log = logs.get("pyromq.broker")

RESIGN_S = 1.0  # for the others to have all of the log, and for whoever decides to hear of it
RESIGN_POLL_S = 0.005
REPEAT_S = 60.0  # between two lines that say the same

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class SetMember:
    """Event loop only. `spawn` begins a task that ends with the daemon.

    Invariant: `master` is there only while this replica may lead, as far as it knows."""

    mastership: type[Mastership] = Mastership

    def __init__(self, me: int, life: Life, clock: Clock, rng: Random, spawn: Spawn, timings: Timings) -> None:
        self.me, self.life = me, life
        self._clock, self._rng, self._spawn, self._timings = clock, rng, spawn, timings
        self.state: SetState | None = None
        self.version = ABSENT
        self.master: Mastership | None = None
        self.stream: FollowedStream | None = None
        self.following: asyncio.Task[None] | None = None
        self._connecting: int | None = None  # the epoch whose master is about to be followed, and has not answered yet
        self._heard_at = float("-inf")
        self._followed_epoch = 0  # the newest one of which a stream was followed
        self._refused: tuple[int, float] | None = None  # the epoch whose master's port refused, and when
        self._may_follow = False  # of an amnesiac replica: the store knows that its log may grow
        self._limited = logs.Limited(log, clock, REPEAT_S)
        self._stirred = asyncio.Event()  # something changed that the next look should see at once

    def seat(self) -> Seat:
        """Return what a mastership of this replica is given."""
        raise NotImplementedError

    async def announce_resignation(self, master: Mastership) -> None:
        """Tell the others that they may elect: this replica gives way. Raises CoordinationUnreachable."""
        raise NotImplementedError

    async def _pause(self) -> None:
        timings = self._timings
        await self._clock.sleep(timings.least_pause_s * self._rng.random())
        longest_s = timings.most_pause_s * (0.25 + 0.75 * self._rng.random())
        with suppress(TimeoutError):
            async with self._clock.timeout(longest_s):
                await self._stirred.wait()
        self._stirred.clear()

    # --- leading -----------------------------------------------------------------------------------------------------

    def _is_named(self, epoch: int) -> bool:
        """Return whether the state says that this replica is master of that epoch."""
        return self.state is not None and (self.state.epoch, self.state.master) == (epoch, self.me)

    async def adopt(self) -> None:
        """Begin to lead the epoch that the state has: its entry is on disk before its first record."""
        assert self.state is not None
        epoch = self.state.epoch
        await self.life.begin_epoch(epoch)
        if not self._is_named(epoch):
            return
        self.life.save_note(self.life.note.caught_up())
        self.master = master = self.mastership(self.seat(), self.state, self.version)
        log.info("this replica leads", epoch=epoch, position=self.life.end, members=sorted(self.state.in_sync))
        try:
            await self.life.lead(master)
        except BaseException:
            if self.master is master:
                self.depose()
            raise

    def depose(self) -> None:
        """Stop leading, at once."""
        assert self.master is not None
        now = self.state
        log.warning("this replica leads no more", epoch=self.master.epoch, now=now and now.epoch, by=now and now.master)
        self.master.end()
        self.master = None
        self._stirred.set()

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
                await self.announce_resignation(master)
        if self.master is master:
            self.depose()

    def leave_master(self) -> None:
        """Close the stream from the old master: what it gets acknowledged by us is in our log by now."""
        if self.following is not None:
            self.following.cancel()
        if self.stream is not None:
            self.stream.close()
            self.stream = None

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
                self._followed_epoch = stream.epoch
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
        """Return whether this replica may change its log now."""
        return True

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
