"""What every RPC is given: the backend, the clients, what is remembered of their messages, settings and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from .. import logs
from ..access.gate import AccessGate
from ..access.rights import Principal
from ..ambient import Clock, Random
from ..errors import PyroError
from ..protocol.command import Command
from ..protocol.headers.header import Header
from ..protocol.row import Row
from ..transport.http2.calls import Call
from .access import AUTHORIZATION, admitted
from .backend import Backend
from .calls import BROKER_S, Caller, caller_of
from .clients.grpc_client import GrpcClient
from .clients.peers import CallPeer
from .clients.registry import Clients
from .config import ProxySettings
from .messages.names import check_topic
from .queues import Queues
from .renewals import Renewals
from .transactions import OpenTransactions

log = logs.get("pyromq.proxy")


@dataclass(eq=False, repr=False)
class Services:
    """Event loop only. `close` gives back what clients hold."""

    backend: Backend
    settings: ProxySettings
    clock: Clock
    rng: Random
    gate: AccessGate | None = None  # None: everybody may do everything
    clients: Clients = field(init=False)
    renewals: Renewals = field(init=False)
    transactions: OpenTransactions = field(init=False)
    queues: Queues = field(init=False)
    few: logs.Limited = field(init=False)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.renewals = Renewals(self.backend, self.settings, self.clock, self.spawn)
        grace_s = self.settings.grpc_client_grace_mills / 1000
        self.clients = Clients(self.backend, self.clock, self._client_gone, grace_s, self.spawn)
        self.transactions = OpenTransactions(self.settings, self.clock)
        self.queues = Queues(self.backend)
        self.few = logs.Limited(log, self.clock)

    def must_learn(self, call: Call) -> str:
        """Return the user who must be known before his call is judged; "": none, or he is."""
        return "" if self.gate is None else self.gate.caller_to_learn(call.metadata.get(AUTHORIZATION, ""))

    async def caller_once_known(self, call: Call, name: str, request: Callable[[], Any]) -> Caller:
        """Return who makes a call, as `caller_of`, once enough is known of him to judge."""
        if self.gate is not None and (user := self.must_learn(call)):
            await self.gate.learn(user, call.remote)
        return self.caller_of(call, name, request)

    def caller_of(self, call: Call, name: str, request: Callable[[], Any]) -> Caller:
        """Return who makes a call. Denied if he may not (40100), or has no client id (40017), in this order.

        `name`: of the request's message; `request` decodes it, and is called for who has shown who he is."""
        gate = self.gate
        principal: Principal = admitted(gate, call, name, request)
        if gate is None:
            return caller_of(call, principal)
        return caller_of(call, principal, gate.rights_of(principal), gate.directory.version)

    def check_topic(self, topic: str) -> None:
        check_topic(topic, self.backend.is_system_topic)

    async def ask(
        self,
        caller: Caller,
        broker: str,
        row: Row[Any, Any, Any, Any],
        header: Header | None = None,
        body: bytes = b"",
        timeout_s: float = BROKER_S,
    ) -> Command:
        """Ask a broker for a caller. What waits there for a call that is cancelled is forgotten."""
        peer = CallPeer(caller.remote, caller.known_language, caller.principal, caller.rights, caller.judged)
        try:
            return await self.backend.call(broker, row, header, body, peer=peer, timeout_s=timeout_s)
        except BaseException:
            peer.is_open = False
            self.backend.gone(peer)
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no call waits for. What goes wrong with it is logged."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except PyroError as fault:
            log.warning("something in the background failed", work=getattr(work, "__qualname__", "?"), why=str(fault))
        except Exception:
            log.exception("something in the background failed", work=getattr(work, "__qualname__", "?"))

    def _client_gone(self, client: GrpcClient) -> None:
        self.renewals.give_back(client.client_id)

    async def close(self) -> None:
        """Give back what clients hold, and wait for what is under way."""
        self.renewals.close()
        try:
            async with self.clock.timeout(BROKER_S):
                while self._background:
                    await asyncio.wait(tuple(self._background))
        except TimeoutError:
            for task in tuple(self._background):
                task.cancel()
