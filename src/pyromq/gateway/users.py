"""Whom the gateway knows: it has the users of the cluster's servers in memory, and hears of each change at once.

It takes part in what servers tell each other (`access/sharing`, request 30015) over the connections that it makes to
them; they tell it of changes over the same ones. Of brokers that take no part, Apache's, it asks for users one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from .. import logs
from ..access.directory import refused
from ..access.gate import AccessGate
from ..access.sealing import SivSeal, new_key
from ..access.settings import GateSettings, NamedSecret
from ..access.sharing.announcing import ROUND_S, UserSharing
from ..access.sharing.exchange import UserExchange
from ..access.sharing.stamps import Stamps
from ..access.signatures import ACCESS_KEY, is_signed
from ..access.table import AccessTable
from ..ambient import Clock
from ..client.connect.session import Session
from ..errors import ConnectionLost, PyroError, RequestRefused
from ..model.codes import ResponseCode
from ..protocol.bodies.own import UserChanges, UserChangesAnswer
from ..protocol.command import Command
from ..protocol.headers.header import Header
from ..protocol.json import ANSWER_LIMITS
from ..protocol.requests import RequestCode
from ..protocol.row import AnyRow
from ..transport.dispatch import Reply, RequestOf
from .config import GatewayConfig
from .fetched_users import FetchedUsers

log = logs.get("pyromq.gateway")

ASK_S = 3.0
FIRST_S = 2.0  # that a request waits for the first round, after a start
_TELLS_FOR_S = 3 * ROUND_S  # that the word of a broker holds which told by itself: all have been asked again by then


class MemoryRows:
    """Implements `access.table.Rows` for a table that its server forgets when it stops."""

    def load(self) -> Mapping[str, Any]:
        return {}

    def put(self, section: str, key: str, value: Any) -> None:
        """Do nothing: the directory has it."""

    def drop(self, section: str, key: str) -> None:
        """Do nothing: the directory has dropped it."""

    async def saved(self) -> None:
        """Return at once: nothing is on disk."""


class GatewayUsers:
    """Event loop only. Implements `access.gate.Learner`.

    Whom servers share is as they say, the deleted ones too; others are asked for."""

    def __init__(self, config: GatewayConfig, session: Session, clock: Clock) -> None:
        settings = config.access
        self._session, self._clock = session, clock
        stamps = Stamps(clock.now_ms, session.client_id)
        self.table = AccessTable(MemoryRows(), SivSeal(new_key), stamps, settings.acl_conflict)
        self.table.begin(settings)
        self._fetched = FetchedUsers(self.table.directory, self._is_shared, self._ask_other, config, clock)
        self._inner = settings.inner_credentials()
        self._sharing = None if self._inner is None else self._made_sharing(self._inner)
        self._exchange: UserExchange
        self._sharers: set[str] = set()  # addresses of servers that share users
        self._others: set[str] = set()  # and of brokers that do not
        self._name_servers = set(config.namesrv_addr)
        self._counting: set[str] = set()  # addresses of brokers that count who uses them
        self._are_counted_until = float("-inf")  # by the word of any broker
        self._heard = asyncio.Event()  # what one server that shares users has is here
        self._compared = asyncio.Event()  # with all servers that answer

    def _made_sharing(self, inner: NamedSecret) -> UserSharing:
        self._exchange = UserExchange(self.table, inner)
        return UserSharing(self._exchange, self._share, self._servers, lambda servers, _: servers, self._clock)

    def _is_shared(self, name: str) -> bool:
        """Tell whether the servers that share users know, or knew, one of this name."""
        return name in self.table.stamps.by_name

    # --- before somebody is judged ------------------------------------------------------------------------------------

    def is_known(self, name: str) -> bool:
        if self._sharing is None:
            return True
        if self._is_shared(name):
            return self._heard.is_set()
        return self._compared.is_set() and (not self._others or self._fetched.is_known(name))

    async def learn(self, name: str, address: str = "") -> None:
        """Return once a user can be judged. RequestRefused, after which clients try again: no server tells of users, or
        too many are asked for."""
        try:
            async with self._clock.timeout(FIRST_S):
                await self._heard.wait()
                if not self._is_shared(name):
                    await self._compared.wait()
        except TimeoutError:
            raise RequestRefused("no server has told of users yet, try again in a moment") from None
        if not self.is_known(name):
            await self._fetched.learn(name, address)

    def are_counted(self) -> bool:
        """Tell whether brokers have quotas of users or addresses, and have to know whose use of them a request is."""
        return bool(self._counting) or self._clock.monotonic() < self._are_counted_until

    # --- what servers tell --------------------------------------------------------------------------------------------

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what looks again and again whether all servers have the same as we do."""
        return {} if self._sharing is None else {"users of the cluster": partial(self._run, self._sharing)}

    async def _run(self, sharing: UserSharing) -> None:
        while True:
            with suppress(PyroError):  # no name server answers
                servers = await self._servers()
                await asyncio.gather(*(self._compare(sharing, server) for server in servers))
            is_heard = bool(self._sharers or self._others)
            if is_heard and not self._compared.is_set():
                self._heard.set()
                self._compared.set()
                log.info("users are known", users=len(self.table.directory.users), brokers_to_ask=len(self._others))
            await self._clock.sleep(ROUND_S if is_heard else self._session.config.trouble_pause_s)

    async def _compare(self, sharing: UserSharing, server: str) -> None:
        """Make up what is missing. One server that shares users is enough to begin with: it has them all."""
        await sharing.compare(server)
        if server in self._sharers:
            self._heard.set()

    async def _share(self, address: str, told: UserChanges) -> UserChangesAnswer | None:
        row = RequestCode.SHARE_USERS
        body = row.takes.write_body(msgspec.structs.replace(told, is_listening=True))
        answer = await self._session.transport.call(address, Command(code=row.code, body=body), ASK_S)
        shares = answer.code == ResponseCode.SUCCESS
        if shares:
            self._sharers.add(address)
            self._others.discard(address)
            told_us: UserChangesAnswer = row.gives.read_body(answer.body, ANSWER_LIMITS)
            (self._counting.add if told_us.counts_callers else self._counting.discard)(address)
            return told_us
        self._sharers.discard(address)
        if address not in self._name_servers:
            self._others.add(address)
        return None

    async def _servers(self) -> list[str]:
        """Return the addresses of all name servers and brokers."""
        info = (await self._session.name_servers.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body
        brokers = {address for one in info.broker_addr_table.values() for address in one.broker_addrs.values()}
        if brokers:  # none: a name server has begun anew, and will hear of them in a moment
            self._others &= brokers
            if not self._others:
                self._fetched.forget_all()
        self._sharers &= brokers | self._name_servers
        self._counting &= brokers
        return [*sorted(self._name_servers), *sorted(brokers - self._name_servers)]

    async def hear(self, request: RequestOf[None, UserChanges]) -> Reply:
        """Take what a server tells over a connection that we made. It is signed, as our own requests are."""
        command, inner = request.command, self._inner
        if inner is None or command.fields.get(ACCESS_KEY) != inner.name or not self._is_signed_by(inner, command):
            raise refused("only servers of the cluster tell of users, signed with innerClientAuthenticationCredentials")
        if request.body.counts_callers:
            self._are_counted_until = self._clock.monotonic() + _TELLS_FOR_S
        return Reply(body=await self._exchange.answer(inner.name, request.body))

    def _is_signed_by(self, inner: NamedSecret, command: Command) -> bool:
        """Tell whether a server signed it: with the old or the new credentials, while they are replaced."""
        user = self.table.directory.find(inner.name)
        valid = user.secrets if user is not None and user.is_enabled else ()
        return is_signed(command, (inner.secret, *valid))

    # --- brokers that share none --------------------------------------------------------------------------------------

    async def _ask_other(self, row: AnyRow, header: Header) -> Command:
        """Ask the first of them that answers."""
        fault: PyroError = ConnectionLost("no broker is there that could be asked")
        for address in sorted(self._others):
            try:
                request = Command(code=row.code, fields=header.to_fields())
                return await self._session.transport.call(address, request, ASK_S)
            except PyroError as failure:
                fault = failure
        raise fault

    async def close(self) -> None:
        await self._fetched.close()


def inner_keys(settings: GateSettings) -> dict[str, Any]:
    """Return the settings of a client that signs as the servers of the cluster do; none: it does not sign."""
    inner = settings.inner_credentials()
    if inner is None:
        return {}
    return {"access_key": inner.name, "secret_key": inner.secret, "security_token": inner.token}


def gate_of(config: GatewayConfig, users: GatewayUsers, clock: Clock) -> AccessGate | None:
    """Return what judges every request and call; None: nobody is asked who he is."""
    settings: GateSettings = config.access
    if not settings.authentication_enabled:
        return None
    cluster = config.rocket_mq_cluster_name
    return AccessGate(users.table.directory, settings, cluster=cluster, clock=clock, learner=users)
