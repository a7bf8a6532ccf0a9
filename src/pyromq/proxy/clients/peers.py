"""gRPC clients as the broker's tables see them, and the peer of a single call, which waits for one answer.

A client is a `Peer` for as long as it is registered: what servers send to it (39, 307, 309) becomes a command on its
telemetry stream. A call has a peer of its own, so that one which gives up takes nothing else with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ...access.rights import EVERYTHING, NOBODY, Principal, Rights
from ...model.client_info import Language, Version
from ...protocol.command import Command

Relay = Callable[["ClientPeer", Command, float], Awaitable[Command]]
Notify = Callable[["ClientPeer", Command], None]


class ClientPeer:
    """A client, by its id. Event loop only. `relay` asks it, `notify` tells it, `ended` hears of its end."""

    __slots__ = ("_ended", "_notify", "_relay", "address", "client_id", "is_open", "language", "version")

    def __init__(
        self,
        client_id: str,
        address: str,
        language: Language | None,
        relay: Relay,
        notify: Notify,
        ended: Callable[[ClientPeer, str], None],
    ) -> None:
        self.client_id = client_id
        self.address = address
        self.language = language
        self.version: int = Version.CURRENT  # no version of a gRPC client is one of remoting
        self.is_open = True
        self._relay, self._notify, self._ended = relay, notify, ended

    @property
    def identity(self) -> None:
        """Return nothing: who calls is asked of each call, before it becomes a request."""

    async def call(self, request: Command, timeout_s: float) -> Command:
        return await self._relay(self, request, timeout_s)

    def send(self, command: Command) -> None:
        if self.is_open and not command.is_response:
            self._notify(self, command)

    def close(self, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            self._ended(self, reason)


class CallPeer:
    """Who asks in one call, and what he may do: a version of the directory has `judged` it.

    `answer` is done once the server has sent its response."""

    __slots__ = ("address", "answer", "is_open", "judged", "language", "principal", "rights", "version")

    def __init__(
        self,
        address: str,
        language: Language | None = None,
        principal: Principal = NOBODY,
        rights: Rights = EVERYTHING,
        judged: int | None = None,
    ) -> None:
        self.principal, self.rights, self.judged = principal, rights, judged
        self.address = address
        self.language = language
        self.version: int = Version.CURRENT
        self.is_open = True
        self.answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

    @property
    def identity(self) -> None:
        """Return nothing, as a client's peer."""

    async def call(self, request: Command, timeout_s: float) -> Command:
        raise TypeError("nobody asks the peer of a call")

    def send(self, command: Command) -> None:
        if command.is_response and not self.answer.done():
            self.answer.set_result(command)

    def close(self, reason: str) -> None:
        self.is_open = False
