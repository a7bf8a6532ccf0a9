"""One gRPC server over one stream, from the client's side: our calls on it, their answers, its end. Event loop only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from ... import logs
from ...ambient import Clock
from ...errors import ConnectionLost, ProtocolError
from ...kernel.http2 import CallReset, ErrorCode, MessageArrived, SessionClosed
from ...protocol.grpc.status import GrpcStatus
from ...protocol.grpc.timeout import format_timeout
from ..connection.security import Security
from ..tls import TlsSession
from ..turns.timeouts import Timeouts
from .calls import GrpcError
from .client_session import AnswerEnded, ClientEvent, ClientSession, GoingAway

log = logs.get("pyromq.transport")

_SEND_AHEAD = 64 << 10  # bytes of one call that may wait for the server's window before the caller does
_KEEP_ALIVE = "keep alive"
_BY_RESET = {
    ErrorCode.REFUSED_STREAM: GrpcStatus.UNAVAILABLE,
    ErrorCode.CANCEL: GrpcStatus.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: GrpcStatus.RESOURCE_EXHAUSTED,
}


class ClientCall:
    """One call of ours. `receive` gives the answers, then None, or raises what ended it. Leaving the block cancels."""

    __slots__ = ("_connection", "_fault", "_has_ended", "_messages", "_waiter", "stream", "trailers", "was_sent")

    def __init__(self, connection: Http2ClientConnection, stream: int) -> None:
        self._connection = connection
        self.stream = stream
        self.trailers: dict[str, str] = {}
        self._messages: deque[bytes] = deque()
        self._fault: Exception | None = None
        self._has_ended = False
        self._waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> ClientCall:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    async def send(self, message: bytes) -> None:
        """Send a message; wait while the server's window is full. Raises what ended the call meanwhile."""
        while not self._has_ended and not self._connection.has_room(self):
            await self._wait()
        if self._has_ended:
            raise self._fault or GrpcError(GrpcStatus.CANCELLED, "the call is over")
        self._connection.send(self, message)

    def half_close(self) -> None:
        """Send no more."""
        self._connection.half_close(self)

    async def receive(self) -> bytes | None:
        """Return the next message of the answer; None: it ended with OK. GrpcError or ConnectionLost otherwise."""
        while not self._messages:
            if self._has_ended:
                if self._fault is not None:
                    raise self._fault
                return None
            await self._wait()
        return self._messages.popleft()

    def cancel(self) -> None:
        """Give the call up, if it has not ended."""
        if not self._has_ended:
            self._connection.cancel(self)

    async def _wait(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiter)  # sender and receiver may wait for the same

    # --- what the connection tells -----------------------------------------------------------------------------------

    def message_came(self, message: bytes) -> None:
        self._messages.append(message)
        self.wake()

    def ended(self, fault: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended, self._fault = True, fault
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Http2ClientConnection(asyncio.BufferedProtocol):
    """`closed` is called once when it has ended, also where it was never ready."""

    def __init__(
        self,
        address: str,
        tls: TlsSession | None,
        closed: Callable[[Http2ClientConnection], None],
        *,
        clock: Clock,
        keep_alive_s: float,
    ) -> None:
        """`keep_alive_s`: how long a server may be silent while calls are open before it is asked, and then again."""
        self.address = address
        self.is_open = False
        self._session = ClientSession()
        self._security = Security(None, tls)
        self._scheme = "http" if tls is None else "https"
        self._closed = closed
        self._clock = clock
        self._keep_alive_s = keep_alive_s
        self._calls: dict[int, ClientCall] = {}
        self._deadlines: Timeouts[ClientCall | str] = Timeouts(clock, self._late)
        self._buffer = memoryview(bytearray(64 << 10))
        self._is_blocked = False
        self._is_unflushed = False
        self._reason = "closed by the peer"
        self._ended_by_peer = False
        self._greeted: asyncio.Future[None] | None = None  # done when the server has spoken HTTP/2, or never will
        self._stream: asyncio.Transport | None = None
        self._gone: asyncio.Event | None = None

    @property
    def can_begin(self) -> bool:
        """Whether new calls may use this connection."""
        return self.is_open and self._session.can_begin

    # --- calls -------------------------------------------------------------------------------------------------------

    def begin(self, path: str, metadata: Iterable[tuple[str, str]], timeout_s: float | None) -> ClientCall:
        """Begin a call. `can_begin` must hold."""
        fields = list(metadata)
        if timeout_s is not None:
            fields.append(("grpc-timeout", format_timeout(timeout_s)))
        call = ClientCall(self, self._session.request(path, self.address, fields, self._scheme))
        if not self._calls:
            self._deadlines.begin(_KEEP_ALIVE, self._keep_alive_s)
        self._calls[call.stream] = call
        if timeout_s is not None:
            self._deadlines.begin(call, timeout_s)
        self._flush_soon()
        return call

    def has_room(self, call: ClientCall) -> bool:
        """Return whether the server takes what is sent: neither its window nor its socket is full."""
        return not self._is_blocked and self._session.unsent(call.stream) <= _SEND_AHEAD

    def send(self, call: ClientCall, message: bytes) -> None:
        self._session.send(call.stream, message)
        self._flush_soon()

    def half_close(self, call: ClientCall) -> None:
        self._session.half_close(call.stream)
        self._flush_soon()

    def cancel(self, call: ClientCall) -> None:
        self._session.reset(call.stream, ErrorCode.CANCEL)
        self._end(call.stream, GrpcError(GrpcStatus.CANCELLED, "cancelled by us"))
        self._flush_soon()

    def _end(self, stream: int, fault: Exception | None) -> None:
        call = self._calls.pop(stream, None)
        if call is not None:
            self._deadlines.end(call)
            call.ended(fault)
            if not self._calls:
                self._deadlines.end(_KEEP_ALIVE)
                if not self._session.can_begin:
                    self.close("the server takes no more calls")

    def _late(self, what: ClientCall | str) -> None:
        if isinstance(what, ClientCall):
            self._session.reset(what.stream, ErrorCode.CANCEL)
            self._end(what.stream, GrpcError(GrpcStatus.DEADLINE_EXCEEDED, f"no answer of {self.address} in time"))
            self._flush_soon()
        elif self._session.unanswered_pings:
            self.abort(f"no answer to a ping within {self._keep_alive_s:g} s")
        elif self._calls:
            self._session.ping()
            self._deadlines.begin(_KEEP_ALIVE, self._keep_alive_s)
            self._flush_soon()

    # --- the stream --------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream, self.is_open = cast(asyncio.Transport, transport), True
        self._greeted = asyncio.get_running_loop().create_future()
        self._security.start(self._stream)
        if self._security.session is None:
            self._flush_soon()

    async def ready(self) -> None:
        """Wait until calls may begin: before its first word a server may be no gRPC endpoint. ConnectionLost if so."""
        if self._security.handshake is not None:
            await self._security.handshake
        if self._greeted is not None:
            await asyncio.shield(self._greeted)
        if not self.is_open:
            raise self._lost()

    def close(self, reason: str) -> None:
        """Close the connection. Calls that are open fail with ConnectionLost."""
        if self.is_open and self._stream is not None:
            self._reason = reason
            self._flush()
            self.is_open = False
            self._stream.close()

    def abort(self, reason: str) -> None:
        if self.is_open:
            self._reason = reason
        self.is_open = False
        if self._stream is not None:
            self._stream.abort()

    async def gone(self) -> None:
        """Wait until the connection is closed to the last byte."""
        if self._stream is not None:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open and exc is not None:
            self._reason = str(exc)
        self._ended_by_peer = self.is_open
        self.is_open, self._stream = False, None
        self._deadlines.stop()
        self._security.end(self._lost())
        self._end_greeting()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.ended(self._lost(was_sent=True))
        if self._gone is not None:
            self._gone.set()
        self._closed(self)

    def _lost(self, was_sent: bool = False) -> ConnectionLost:
        has_spoken = self._greeted is not None and self._greeted.done()
        is_told = self._security.session is not None and not has_spoken  # what TLS makes of its end
        hint = self._security.hint(self._reason, self._ended_by_peer) if is_told else ""
        lost = ConnectionLost(f"the connection to {self.address} ended: {self._reason}", hint=hint)
        lost.was_sent = was_sent
        return lost

    def _end_greeting(self) -> None:
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes of the server. Whatever is wrong with them ends this connection."""
        if not self.is_open or self._stream is None:
            return
        try:
            data = self._buffer[:nbytes]
            if self._security.session is not None:
                data = self._security.receive(data, self._stream)
            if data:
                self._receive(self._session.receive(data))
                self._end_greeting()
            self._flush_soon()
        except ProtocolError as fault:
            self.abort(str(fault))
        except Exception:
            log.exception("receiving failed", peer=self.address)
            self.abort("internal error while receiving")

    def _receive(self, events: Iterable[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, MessageArrived):
                call = self._calls.get(event.stream)
                if call is not None:
                    call.message_came(event.message)
            elif isinstance(event, AnswerEnded):
                self._answer_ended(event)
            elif isinstance(event, CallReset):
                status = _BY_RESET.get(event.code, GrpcStatus.INTERNAL)
                self._end(event.stream, GrpcError(status, f"the server reset the call (HTTP/2 error {event.code})"))
            elif isinstance(event, SessionClosed):
                self.close(event.reason)
            elif isinstance(event, GoingAway) and not self._calls:
                self.close(f"the server goes away: {event.reason}")
        if self._calls:
            self._deadlines.begin(_KEEP_ALIVE, self._keep_alive_s)
            for call in self._calls.values():
                call.wake()

    def _answer_ended(self, event: AnswerEnded) -> None:
        call = self._calls.get(event.stream)
        if call is not None:
            call.trailers = event.trailers
        self._end(event.stream, GrpcError(_known(event.status), event.text) if event.status else None)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        if not self._is_unflushed:
            self._is_unflushed = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        tls = self._security.session
        if self._stream is None or not self.is_open or (tls is not None and not tls.is_ready):
            self._is_unflushed = False
            return
        self._is_unflushed = False
        output = self._session.take_output()
        if output:
            self._stream.write(output if tls is None else tls.encrypt((output,)))

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        for call in self._calls.values():
            call.wake()


def _known(status: int) -> GrpcStatus:
    return GrpcStatus(status) if status in GrpcStatus._value2member_map_ else GrpcStatus.UNKNOWN
