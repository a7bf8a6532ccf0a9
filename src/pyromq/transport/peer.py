"""The other end of a connection as the rooms above see it."""

from __future__ import annotations

from typing import Protocol

from ..model.client_info import Language
from ..protocol.command import Command


class Peer(Protocol):
    """One connected program. Event loop only. Hashable by identity: tables use it as key."""

    @property
    def address(self) -> str:
        """Return `host:port` of the other end, as it stands in answers and log lines."""

    @property
    def language(self) -> Language | None: ...

    @property
    def version(self) -> int: ...

    @property
    def identity(self) -> str | None:
        """Return the user that the peer's certificate names; None: it showed none, or none was asked for."""

    @property
    def is_open(self) -> bool: ...

    async def call(self, request: Command, timeout_s: float) -> Command:
        """Send and await the response. CallTimedOut or ConnectionLost if none comes."""

    def send(self, command: Command) -> None:
        """Send without waiting: a one-way request. Dropped silently if the connection is gone."""

    def close(self, reason: str) -> None: ...


class FramePeer(Peer, Protocol):
    """A peer that takes frames as a kernel has made them."""

    def send_now(self, frames: bytes) -> None:
        """Send at once, not at the end of the turn."""

    def replies_pending(self, change: int) -> None:
        """Count bytes of answers that wait, more or fewer: while there are many, the peer waits too."""

    def send_when_readable(self, frames: bytes, position: int) -> None:
        """Send once the log is readable up to a position."""
