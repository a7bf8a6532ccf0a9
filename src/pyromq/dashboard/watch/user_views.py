"""Clusters as users see them: who logs in by name and secret has watchers whose requests he has signed.

What he sees is what brokers and name servers show him: no right of his is decided here. Secrets are in memory, as long
as a session of the user is. Whether a secret is right a broker says: it answers a heartbeat without any group to every
user, and has to refuse the same one with a wrong secret, or it would let everybody in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from random import Random

from ... import logs
from ...admin import cluster
from ...admin.calls import Calls
from ...ambient import Clock
from ...client.config import ClientConfig
from ...client.connect.session import Session
from ...client.errors import Error, Refused
from ...errors import CallFailed, Malformed, PyroError
from ...model.codes import ResponseCode
from ...protocol.bodies.heartbeat import HeartbeatData
from ...protocol.requests import RequestCode
from .watched import ClusterWatch

log = logs.get("pyromq.dashboard")

ASK_S = 3.0  # that a broker may take to answer
FIRST_SNAPSHOT_S = 3.0  # that a login waits for the first figures
MOST_BROKERS = 8  # brokers for one login
MOST_USERS = 100  # who are logged in at a time: each of them has watchers
MOST_HEARD = 8  # users at a time of whom clusters are asked again: each is asked over connections of his own
_FAULTS = (Error, CallFailed, Malformed)


class LoginRefused(PyroError):
    """Nobody is logged in. Its text is for the one who tries, and says nothing of who there is."""


class LoginVerdict(IntEnum):
    """What brokers say of a name and a secret: the greatest one counts."""

    SILENT = 0
    OPEN = 1  # they would take any secret
    REFUSED = 2
    RIGHT = 3


LOGIN_WORDS = {
    LoginVerdict.SILENT: "No broker answers: try again later",
    LoginVerdict.OPEN: "The cluster asks nobody who he is, so nobody can log in as a user: take the token",
    LoginVerdict.REFUSED: "Name or secret is wrong, or this user may not see the cluster",
}

TOO_MANY = "Too many users are logged in: try again later"

OpenWatch = Callable[[str, ClientConfig], AbstractAsyncContextManager[ClusterWatch]]


@dataclass(slots=True, eq=False, repr=False)
class UserView:
    """The clusters that have let a user in, by their names. `sessions`: that see them."""

    name: str
    watched: Mapping[str, ClusterWatch]
    reach: Mapping[str, ClientConfig]
    closing: AsyncExitStack
    sessions: int = 0


class UserViews:
    """Event loop only. `reach`: how to reach each cluster, in the order in which they are shown."""

    def __init__(
        self,
        reach: Mapping[str, ClientConfig],
        open_watch: OpenWatch,
        word: Callable[[], str],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._reach, self._open_watch, self._word, self._clock, self._rng = reach, open_watch, word, clock, rng
        self._views: list[UserView] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, name: str, secret: str) -> UserView:
        """Return what a user sees, for one session more. LoginRefused says why not."""
        if not name or not secret:
            raise LoginRefused(LOGIN_WORDS[LoginVerdict.REFUSED])
        signed = {
            cluster: replace(one, access_key=name, secret_key=secret, security_token="")
            for cluster, one in self._reach.items()
        }
        verdicts = dict(zip(signed, await asyncio.gather(*map(self._proven, signed.values())), strict=True))
        best = max(verdicts.values())
        if best is not LoginVerdict.RIGHT:
            raise LoginRefused(LOGIN_WORDS[best])
        known = {cluster: reach for cluster, reach in signed.items() if verdicts[cluster] is LoginVerdict.RIGHT}
        for view in self._views:
            if view.reach == known:
                view.sessions += 1
                return view
        return await self._made(name, known)

    async def _made(self, name: str, known: Mapping[str, ClientConfig]) -> UserView:
        if len(self._views) >= MOST_USERS:
            raise LoginRefused(TOO_MANY)
        async with AsyncExitStack() as opening:
            watched = {
                cluster: await opening.enter_async_context(self._open_watch(cluster, reach))
                for cluster, reach in known.items()
            }
            view = UserView(name, watched, known, opening.pop_all(), sessions=1)
        self._views.append(view)
        try:
            async with self._clock.timeout(FIRST_SNAPSHOT_S):
                await asyncio.gather(*(one.watcher.next_snapshot() for one in watched.values()))
        except TimeoutError:
            pass  # the pages say that they look for the first time
        except BaseException:
            self.release(view)
            raise
        return view

    def release(self, view: UserView) -> None:
        """Forget a session of a view; with the last one its watchers end, and the secret is forgotten."""
        view.sessions -= 1
        if view.sessions == 0:
            self._views.remove(view)
            task = asyncio.get_running_loop().create_task(view.closing.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def refused_by_now(self) -> list[UserView]:
        """Return the views of users whom a cluster of theirs takes no more: disabled, with another secret, without
        rights. At the next login they see the clusters that are left."""
        views, room = list(self._views), asyncio.Semaphore(MOST_HEARD)

        async def is_refused(view: UserView) -> bool:
            async with room:
                return LoginVerdict.REFUSED in await asyncio.gather(*map(self._heard, view.reach.values()))

        refused = await asyncio.gather(*map(is_refused, views))
        return [view for view, is_over in zip(views, refused, strict=True) if is_over]

    async def close(self) -> None:
        await asyncio.gather(*(view.closing.aclose() for view in self._views), *self._closing)

    # --- asking brokers -----------------------------------------------------------------------------------------------

    async def _proven(self, reach: ClientConfig) -> LoginVerdict:
        """Return what one cluster says of a name and a secret: RIGHT only where a wrong secret is refused."""
        async with self._calls(reach) as calls, self._calls(replace(reach, secret_key=self._word())) as guess:

            async def of_broker(address: str) -> LoginVerdict:
                verdict = await _heard(address, calls)
                if verdict is LoginVerdict.RIGHT and await _heard(address, guess) is not LoginVerdict.REFUSED:
                    return LoginVerdict.OPEN
                return verdict

            return await _greatest(calls, of_broker)

    async def _heard(self, reach: ClientConfig) -> LoginVerdict:
        async with self._calls(reach) as calls:
            return await _greatest(calls, lambda address: _heard(address, calls))

    @asynccontextmanager
    async def _calls(self, reach: ClientConfig) -> AsyncIterator[Calls]:
        session = Session(reach, clock=self._clock, rng=self._rng)
        try:
            yield Calls(session, timeout_s=ASK_S)
        finally:
            await session.stop()


async def _greatest(calls: Calls, of_broker: Callable[[str], Awaitable[LoginVerdict]]) -> LoginVerdict:
    """Return the greatest verdict of a cluster's brokers."""
    try:
        places = await cluster.masters(calls)
    except _FAULTS as fault:
        return _of_fault(fault)
    return max(await asyncio.gather(*(of_broker(place.address) for place in places[:MOST_BROKERS])))


async def _heard(address: str, calls: Calls) -> LoginVerdict:
    """Return whether a broker takes a heartbeat without groups, for which no right is needed."""
    try:
        await calls.ask(address, RequestCode.HEART_BEAT, None, HeartbeatData(client_id=calls.session.client_id))
    except _FAULTS as fault:
        return _of_fault(fault)
    return LoginVerdict.RIGHT


def _of_fault(fault: Exception) -> LoginVerdict:
    is_refusal = isinstance(fault, Refused) and fault.code == ResponseCode.NO_PERMISSION
    return LoginVerdict.REFUSED if is_refusal else LoginVerdict.SILENT
