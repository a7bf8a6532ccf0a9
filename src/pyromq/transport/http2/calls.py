"""A gRPC call as the rooms above see it, and what they give to serve calls: handlers by method path.

The transport keeps these promises: messages are whole, unpacked and within the limits; a call whose client cancels,
resets or goes away has its task cancelled; one whose deadline passes ends with DEADLINE_EXCEEDED, its task cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from ...errors import PyroError
from ...protocol.grpc.status import GrpcStatus
from ...protocol.row import RequestClass


class GrpcError(PyroError):
    """Ends a call with a gRPC status other than OK. Refusals of RocketMQ are no such errors: they are messages."""

    def __init__(self, status: GrpcStatus, text: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class StrangerRefused(PyroError):
    """Answers a call with this message before its own is read: it does not show who makes it."""

    def __init__(self, message: bytes) -> None:
        super().__init__("the call does not show who makes it")
        self.message = message


class Call(Protocol):
    """One call of a client. Event loop only. Hashable by identity."""

    @property
    def method(self) -> str:
        """Return the path: `/apache.rocketmq.v2.MessagingService/SendMessage`."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Return the headers, those of HTTP/2 and gRPC among them. Repeated ones are joined by commas."""

    @property
    def remote(self) -> str:
        """Return `host:port` of the client, as a PROXY preamble named it where one is allowed."""

    @property
    def local(self) -> str: ...

    @property
    def deadline(self) -> float | None:
        """Return when the client gives up, by the monotonic clock; None: never."""

    async def receive(self) -> bytes | None:
        """Return the next request message; None when the client has half-closed. GrpcError if one cannot be taken."""

    async def send(self, message: bytes) -> None:
        """Send a message of the answer; wait while the peer's window is full."""


# One message in, one out. A plain result costs no task.
Unary = Callable[[Call, bytes], bytes | Awaitable[bytes]]
# Receives and sends as it likes. Its return ends the call with OK, a GrpcError with that status.
Stream = Callable[[Call], Awaitable[None]]


class CallListener(Protocol):
    """Hears a call for as long as its client likes. While nothing comes it costs no task: thousands may be open."""

    async def came(self, call: Call, message: bytes) -> None:
        """Take the next message; the one after it waits. A GrpcError ends the call with that status."""

    def ended(self, call: Call) -> None:
        """Note that the call is over, once, whoever ended it. A half-close of the client ends it with OK."""


class Method(NamedTuple):
    """How one method is served: by one of `unary`, `stream` and `listener`."""

    unary: Unary | None = None
    stream: Stream | None = None
    listener: CallListener | None = None
    most_bytes: int = 64 << 10  # of a request message
    lane: RequestClass = RequestClass.QUERY  # which calls it is served among, and with which share of a turn
    refused: Callable[[str], bytes] | None = None  # makes the answer to who does not show who he is, of the reason


Methods = Mapping[str, Method]
# Judges the headers of a stranger's call, of his address: returns whether they show who he is; False: for this call he
# need not; None: it is not known yet. RequestRefused if he must, and they do not.
Screen = Callable[[Mapping[str, str], str], bool | None]
