"""Users of brokers that tell others of none, Apache's: asked for one by one when they come, as Java's proxy does.

A user is read anew after a while when he comes again, in the background: a change counts late. Where no broker answers,
what was known of him stays.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .. import logs
from ..access.directory import USER, Directory
from ..access.forms import policies_of, user_status, user_type
from ..access.policies import Policies
from ..access.users import User, UserStatus, UserType
from ..ambient import Clock
from ..errors import PyroError, RequestRefused
from ..model.codes import ResponseCode
from ..protocol.bodies.groups import AclInfo, UserInfo
from ..protocol.command import Command
from ..protocol.headers.admin import AclSubject, UserName
from ..protocol.headers.header import Header
from ..protocol.requests import RequestCode
from ..protocol.row import AnyRow
from ..transport.connection.security import retrieve
from .config import GatewayConfig

log = logs.get("pyromq.gateway")

MOST_AT_ONCE = 64  # that are asked for; others wait
MOST_STRANGERS = 1_000
MOST_NEWCOMERS = 256  # that are asked for or wait for it: a stranger may claim any name
LEARN_S = 10.0  # that a request waits for a user

Ask = Callable[[AnyRow, Header], Awaitable[Command]]


@dataclass(slots=True)
class _Known:
    read: float
    used: float


class FetchedUsers:
    """Event loop only. Who is nobody's user is remembered apart, so that strangers push out no user."""

    def __init__(
        self, directory: Directory, is_shared: Callable[[str], bool], ask: Ask, config: GatewayConfig, clock: Clock
    ) -> None:
        """`ask`: one of those brokers. PyroError, if none answers. `is_shared`: other servers tell of a user, and what
        they say counts."""
        self._directory, self._is_shared = directory, is_shared
        self._ask, self._config, self._clock = ask, config, clock
        self._known: OrderedDict[str, _Known] = OrderedDict()  # who came last is last
        self._strangers: OrderedDict[str, float] = OrderedDict()  # and when that was asked
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._newcomers: dict[str, str] = {}  # who is read and was not known, and from which connection he came
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._era = 0  # grows when everybody is forgotten
        self._warn = logs.Limited(log, clock)

    def is_known(self, name: str) -> bool:
        """Tell whether a user need not be waited for. What is old is read anew in the background."""
        now, keep_s = self._clock.monotonic(), self._config.user_cache_refresh_seconds
        known = self._known.get(name)
        if known is not None and now - known.used >= self._config.user_cache_expired_seconds:
            self._forget(name)
            known = None
        if known is None:
            asked = self._strangers.get(name)
            return asked is not None and now - asked < keep_s
        known.used = now
        self._known.move_to_end(name)
        if now - known.read >= keep_s:
            self._begin(name)
        return True

    async def learn(self, name: str, address: str = "") -> None:
        """Return once the user is read. RequestRefused: no broker tells of him, or none in time; too many are asked
        for, of all connections or of the one from this address, which has one at a time."""
        if self.is_known(name):
            return
        task = self._reading.get(name) or self._begin_newcomer(name, address)
        try:
            async with self._clock.timeout(LEARN_S):
                await asyncio.shield(task)
        except TimeoutError:
            raise RequestRefused(f"no broker has told of the user in {LEARN_S:.0f} s, try again in a moment") from None

    def _begin_newcomer(self, name: str, address: str) -> asyncio.Task[None]:
        if len(self._newcomers) >= MOST_NEWCOMERS:
            raise _busy(f"brokers are asked for {MOST_NEWCOMERS} users already")
        if address and address in self._newcomers.values():
            raise _busy("brokers are asked for another user of this connection")
        self._newcomers[name] = address
        return self._begin(name)

    def _begin(self, name: str) -> asyncio.Task[None]:
        """Read a user, if nobody does so already. Whoever waits shares it, and one who gives up leaves it to others."""
        task = self._reading.get(name)
        if task is None:
            task = self._reading[name] = asyncio.get_running_loop().create_task(self._read(name))
            task.add_done_callback(retrieve)
        return task

    async def _read(self, name: str) -> None:
        era = self._era
        try:
            async with self._places:
                user = await self._user(name)
                policies = () if user is None else await self._policies(name)
        except PyroError as fault:
            self._warn.warning("a user cannot be read from the brokers", user=name, why=str(fault))
            raise RequestRefused(f"the brokers do not tell of users now, try again in a moment: {fault}") from None
        finally:
            del self._reading[name]
            self._newcomers.pop(name, None)
        if era == self._era:
            self._take(name, user, policies)

    def _take(self, name: str, user: User | None, policies: Policies) -> None:
        now = self._clock.monotonic()
        if user is None:
            self._forget(name)
            self._strangers[name] = now
            self._strangers.move_to_end(name)
            if len(self._strangers) > MOST_STRANGERS:
                self._strangers.popitem(last=False)
            return
        self._known[name] = _Known(now, now)
        self._put(name, user, policies)
        if len(self._known) > self._config.user_cache_max_num:
            self._forget(next(iter(self._known)))

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._put(name, None, ())

    def _put(self, name: str, user: User | None, policies: Policies) -> None:
        before = self._directory.find(name), self._directory.policies.get(name, ())
        if before != (user, policies) and not self._is_shared(name):
            self._directory.cache(name, user, policies)

    async def _user(self, name: str) -> User | None:
        row = RequestCode.AUTH_GET_USER
        answer = await self._ask(row, UserName(username=name))
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRefused(answer.remark or f"{row.name} is answered {answer.code}")
        if not answer.body:
            return None
        info: UserInfo = row.gives.read_body(answer.body)
        if not info.password:
            raise RequestRefused(f"the password of {name} is not shown to innerClientAuthenticationCredentials")
        # A word that nobody knows gives nobody more.
        kind, status = user_type(info.user_type) or UserType.NORMAL, user_status(info.user_status)
        return User(name, (info.password,), kind, status or UserStatus.DISABLED)

    async def _policies(self, name: str) -> Policies:
        row = RequestCode.AUTH_GET_ACL
        answer = await self._ask(row, AclSubject(subject=USER + name))
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRefused(answer.remark or f"{row.name} is answered {answer.code}")
        if not answer.body:
            return ()
        info: AclInfo = row.gives.read_body(answer.body)
        return policies_of(info) if info.policies else ()

    def forget_all(self) -> None:
        """Forget everybody: no broker is left that could be asked. What is being read now is not taken any more."""
        self._era += 1
        self._strangers.clear()
        for name in tuple(self._known):
            self._forget(name)

    async def close(self) -> None:
        tasks = tuple(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _busy(why: str) -> RequestRefused:
    return RequestRefused(f"[OVERLOAD] {why}: try again in a moment", ResponseCode.SYSTEM_BUSY)
