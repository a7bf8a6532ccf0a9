"""One call at the server: what its handler reads and writes. Made by `connection.py`; event loop only."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Protocol

from ...protocol.grpc.status import GrpcStatus
from .calls import GrpcError, Method

_MOST_WAITING = 256  # messages that came and that the handler has not received yet
_MOST_WAITING_BYTES = 1 << 20  # of these, beyond the first


class CallConnection(Protocol):
    """The connection as a call sees it."""

    address: str
    local: str

    def send_message(self, call: ServerCall, message: bytes) -> None: ...

    def has_room(self, call: ServerCall) -> bool:
        """Return whether the peer takes what is sent: neither its window nor its socket is full."""

    def when_room(self, call: ServerCall) -> asyncio.Future[None]:
        """Return a future that is done when there may be room, or the call is over."""


class ServerCall:
    """Implements `calls.Call`."""

    __slots__ = (
        "_connection", "_half_closed", "_headers", "_messages", "_waiter", "_waiting_bytes",
        "deadline", "handler", "is_over", "method", "received_bytes", "stream", "task",
    )  # fmt: skip

    def __init__(
        self,
        connection: CallConnection,
        stream: int,
        headers: Mapping[str, str],
        handler: Method,
        deadline: float | None,
    ) -> None:
        self._connection = connection
        self.stream = stream
        self.method = sys.intern(headers[":path"])  # one of those that are served
        self.handler = handler
        self.deadline = deadline
        self.is_over = False
        self.task: asyncio.Task[None] | None = None
        self._headers = headers
        self._messages: tuple[bytes, ...] = ()  # nearly always one at most, and none for hours
        self._waiting_bytes = 0
        self.received_bytes = 0  # of all messages so far
        self._half_closed = False
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<ServerCall {self.method} of {self.remote}>"

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._headers

    @property
    def remote(self) -> str:
        return self._connection.address

    @property
    def local(self) -> str:
        return self._connection.local

    async def receive(self) -> bytes | None:
        """Return the next request message; None when the client has half-closed."""
        while not self._messages:
            if self._half_closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.next_message()

    def next_message(self) -> bytes:
        """Take the first of the messages that wait."""
        message, self._messages = self._messages[0], self._messages[1:]
        self._waiting_bytes -= len(message)
        return message

    async def send(self, message: bytes) -> None:
        """Send a message of the answer; wait while the peer's window is full."""
        while not self._connection.has_room(self):
            await self._connection.when_room(self)
        self._connection.send_message(self, message)

    @property
    def has_message(self) -> bool:
        return bool(self._messages)

    @property
    def is_half_closed(self) -> bool:
        return self._half_closed

    # --- what the connection tells -----------------------------------------------------------------------------------

    def message_came(self, message: bytes) -> None:
        """Keep a message until the handler receives it. GrpcError if too many wait."""
        self._messages += (message,)
        self._waiting_bytes += len(message)
        self.received_bytes += len(message)
        if len(self._messages) > 1 and (
            len(self._messages) > _MOST_WAITING or self._waiting_bytes > _MOST_WAITING_BYTES
        ):
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, "messages come faster than this call takes them")
        self._wake()

    def half_closed(self) -> None:
        self._half_closed = True
        self._wake()

    def the_message(self) -> bytes:
        """Return the one message of a unary call. GrpcError, in Java's words, if there is another number of them."""
        if not self._messages:
            raise GrpcError(GrpcStatus.INTERNAL, "Half-closed without a request")
        if len(self._messages) > 1:
            raise GrpcError(GrpcStatus.INTERNAL, "Too many requests")
        return self.next_message()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
