"""Servers that hear of changes over connections that they made themselves: gateways, which no name server lists.

A gateway may stand where brokers cannot connect to, and several of them may share a port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ...errors import PyroError
from ...protocol.bodies.own import UserChanges
from ...protocol.command import Command
from ...protocol.requests import RequestCode
from .announcing import ANNOUNCE_S


class ListeningPeer(Protocol):
    """The other end of a connection; `transport.peer.Peer` is one."""

    @property
    def is_open(self) -> bool: ...

    async def call(self, request: Command, timeout_s: float) -> Command: ...


class UserListeners:
    """Event loop only. Who listens says so again with each of his rounds."""

    def __init__(self, sign: Callable[[Command], None]) -> None:
        self._sign = sign
        self.peers: set[ListeningPeer] = set()

    def add(self, peer: ListeningPeer) -> None:
        self.peers.add(peer)
        self.peers = {one for one in self.peers if one.is_open}

    async def announce(self, changes: UserChanges) -> None:
        """Return when all who listen have heard, or after a moment: they get it with a later round."""
        await asyncio.gather(*(self._announce_to(peer, changes) for peer in self.peers if peer.is_open))

    async def _announce_to(self, peer: ListeningPeer, changes: UserChanges) -> None:
        row = RequestCode.SHARE_USERS
        command = Command(code=row.code, body=row.takes.write_body(changes))
        self._sign(command)
        try:
            await peer.call(command, ANNOUNCE_S)
        except PyroError:
            return
