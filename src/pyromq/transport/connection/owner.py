"""What a connection asks of the server or client that it belongs to: `service.py` is the one that answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ... import logs
from ...ambient import Clock
from ...kernel.seam import Feed, PendingReply
from ...protocol.command import Command
from ..limits import Limits
from ..turns.long_turns import LongTurns
from .buffered_bytes import BufferedBytes

C = TypeVar("C", contravariant=True)  # the connection, which imports this


class Owner(Protocol[C]):
    """Shared by all connections of one server or client."""

    clock: Clock
    limits: Limits
    warn: logs.Limited
    feed: Feed
    buffer: memoryview  # received bytes land here; shared, since they are dealt with before the next read
    turn_buffer: memoryview  # the part of it that a connection usually fills in its turn
    buffered: BufferedBytes
    long_turns: LongTurns

    def opened(self, connection: C) -> bool:
        """Return whether to serve the connection; False: it is one too many."""

    def closed(self, connection: C) -> None: ...

    def submit(self, connection: C, requests: Sequence[Command]) -> None: ...

    def reply_when_readable(self, connection: C, replies: Sequence[PendingReply]) -> None: ...

    def flush_soon(self, connection: C) -> None: ...

    def suspend(self, connection: C) -> None:
        """Serve no more of its requests: the peer does not read."""

    def resume(self, connection: C) -> None: ...

    def account(self, connection: C, change: int) -> None:
        """Count bytes that are kept for this peer, more or fewer. Over the limit a peer is cut off, maybe this one."""
