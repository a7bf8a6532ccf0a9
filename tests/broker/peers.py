"""A client as the broker's tables see it: an address, and what it was sent."""

from __future__ import annotations

from pyromq.errors import ConnectionLost
from pyromq.model.client_info import Language, Version
from pyromq.protocol.command import Command


class FakePeer:
    """Implements `transport.peer.Peer`."""

    def __init__(self, address: str = "127.0.0.1:50001", version: int = Version.CURRENT) -> None:
        self.address = address
        self.language: Language | None = Language.JAVA
        self.version = version
        self.is_open = True
        self.identity: str | None = None
        self.sent: list[Command] = []
        self.answers: list[Command] = []
        self.closed_for: str | None = None

    def __repr__(self) -> str:
        return self.address

    async def call(self, request: Command, timeout_s: float) -> Command:
        self.sent.append(request)
        if not self.answers:
            raise ConnectionLost(f"{self.address} does not answer")
        return self.answers.pop(0)

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def close(self, reason: str) -> None:
        self.is_open = False
        self.closed_for = reason
