"""One gRPC client over one stream: bytes in to calls, answers out to bytes.

`Server` makes these when the first bytes of a connection are HTTP/2's. What belongs to the protocol is the session's
(`session.py`, or nghttp2 in the kernel), whose turn it is the service's. Event loop only.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import cast

from ... import logs
from ...ambient import Timer
from ...errors import ProtocolError
from ...kernel.http2 import CallBegun, CallReset, HalfClosed, MessageArrived
from ..address import socket_address
from ..connection.flow import FlowControl, Pause
from ..connection.security import Security
from ..connection.strangers import Stranger
from ..turns.timeouts import NEVER, Timeouts
from .calls import GrpcError, StrangerRefused
from .frame_guard import HeadFirst
from .hot import HotLane, HotSession
from .server_call import ServerCall
from .service import CallService
from .sessions import NewSession

log = logs.get("pyromq.transport")

_FLUSH_BYTES = 64 << 10  # written at once when calls have sent this much
_PLAIN = Security(None, None)  # of all connections without TLS: thousands are idle, and each object counts
_NOBODY: dict[ServerCall, asyncio.Future[None]] = {}  # stays empty
_SEND_AHEAD = 64 << 10  # bytes of one call that may wait for the peer's window before its handler does


class Http2Connection(asyncio.BufferedProtocol):
    """Implements `ServedConnection` for the service and `BufferedPeer` for the budget of bytes."""

    __slots__ = (
        "_active_at", "_calls", "_deadlines", "_flow", "_gone", "_head_first", "_hot", "_is_ending", "_is_unflushed",
        "_kept", "_linger", "_ready_bytes", "_request_bytes", "_room", "_security", "_service", "_session", "_stream",
        "address", "buffered", "is_open", "local", "stranger", "was_cut",
    )  # fmt: skip

    def __init__(self, service: CallService, new_session: NewSession, security: Security, address: str) -> None:
        """`address`: the client's, as a PROXY preamble named it; empty: the socket's."""
        self.address = address
        self.local = "unknown"
        self.buffered = 0  # bytes, as `buffered_bytes.py` counts them
        self.is_open = False
        self.was_cut = False
        self.stranger: Stranger | None = None  # until a call has shown who makes it, where everybody is asked
        self._head_first: HeadFirst | None = None
        self._is_ending = False  # the session has said why it is over
        self._service = service
        self._session = new_session(service.http2)
        is_plain = security.session is None and not security.is_undecided
        self._security = _PLAIN if is_plain else security
        self._calls: dict[int, ServerCall] = {}
        self._request_bytes = 0  # messages of unary calls that are not finished
        self._kept = 0  # bytes that the budget knows of
        self._active_at = service.clock.monotonic()  # the last time that a call ended
        self._deadlines: Timeouts[str] = Timeouts(service.clock, self._late)
        self._room = _NOBODY  # who waits to send
        self._is_unflushed = False
        self._ready_bytes = 0  # of messages since the last flush
        self._hot: HotLane | None = None  # calls that the kernel serves by itself
        self._linger: Timer | None = None
        self._gone: asyncio.Event | None = None
        # Set from connection_made to connection_lost.
        self._stream: asyncio.Transport | None = None
        self._flow: FlowControl

    def __repr__(self) -> str:
        return f"<Http2Connection {self.address}>"

    # --- beginning and end -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        service, limits = self._service, self._service.limits
        self._stream, self.is_open = stream, True
        peer, own = stream.get_extra_info("peername"), stream.get_extra_info("sockname")
        self.address = self.address or (socket_address(peer) if peer else "unknown")
        self.local = sys.intern(socket_address(own)) if own else self.local
        self._flow = FlowControl(stream, limits, self._account, service.no_requests)
        self._deadlines.begin("opening_s", limits.opening_s)
        self._deadlines.begin("idle_s", limits.idle_s)
        stream.set_write_buffer_limits(high=service.buffered.add_stream(limits.write_high_bytes))
        if self.stranger is None:
            self._serve_hot()
        service.opened(self)
        self._unflushed()

    def meet(self, stranger: Stranger) -> None:
        """Hold the peer to the limits of strangers until it has shown who it is. No call of it is the kernel's."""
        self.stranger, self._head_first = stranger, HeadFirst()
        stranger.meet(self)

    def recognised(self) -> None:
        """Hold the peer to the limits of all others from now on: it has shown who it is."""
        self.stranger = None
        self._serve_hot()

    def _serve_hot(self) -> None:
        """Have the kernel serve what it can of the calls that begin from now on."""
        if self._service.hot is not None:
            self._hot = HotLane(self._service.hot, cast(HotSession, self._session), self, self.address)

    def begin(self, stream: asyncio.Transport, data: memoryview) -> None:
        """Take over a stream whose first bytes are these, in plain."""
        self.connection_made(stream)
        self._guarded(self._receive, data)

    def close(self, reason: str) -> None:
        """Close the connection. What was sent before still leaves, for as long as limits.linger_s."""
        if not self.is_open or self._stream is None:
            return
        self.flush()
        self.is_open = False
        if self._security.session is not None:
            self._stream.write(self._security.session.close())
        self._stream.close()
        self._linger = self._service.clock.call_later(self._service.limits.linger_s, self._stream.abort)

    def abort(self, reason: str) -> None:
        """Cut the connection off; what was not written yet is lost."""
        self.is_open, self.was_cut = False, True
        if self._stream is not None:
            self._drop_buffered()
            self._stream.abort()

    def violation(self, event: str, **fields: object) -> None:
        """Log one rate-limited line that says what was wrong, and cut the connection."""
        if self.is_open:
            self._service.warn.warning(event, peer=self.address, **fields)
            self.abort(event)

    async def gone(self) -> None:
        """Wait until the connection is closed to the last byte."""
        if self._stream is not None:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def eof_received(self) -> None:
        """Let asyncio close the stream."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._stream = None
        self._service.buffered.remove_stream()
        self._deadlines.stop()
        if self._linger is not None:
            self._linger.cancel()
        calls, self._calls = self._calls, {}
        self._service.departed(self, calls)
        if self._hot is not None:
            self._hot.lost()
        self._drop_buffered()
        self._flow.wake()
        self._wake_senders()
        if self._gone is not None:
            self._gone.set()
        self._service.closed(self)

    def _late(self, name: str) -> None:
        if name != "idle_s":
            self.violation("slow peer", limit=name, value=getattr(self._service.limits, name))
            return
        idle_s = self._service.limits.idle_s
        left_s = self._active_at + idle_s - self._service.clock.monotonic()
        if left_s > 0:
            self._deadlines.begin("idle_s", left_s)
            return
        log.debug("idle connection closed", peer=self.address, limit="idle_s", value=idle_s)
        self.say_goaway()  # as Java does: PINGs are no calls
        self.close("idle")

    def _expect(self, name: str, within_s: float) -> None:
        if name not in self._deadlines.deadlines:
            self._deadlines.begin(name, within_s)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._service.turn_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes from the wire. Whatever is wrong with them ends this connection and nothing else."""
        if not self.is_open:
            return
        self._guarded(self._receive_raw, self._service.buffer[:nbytes])
        if nbytes >= len(self._service.turn_buffer):
            self._flow.yield_turn()  # more is waiting: others have their turn first

    def _guarded(self, receive: Callable[[memoryview], None], data: memoryview) -> None:
        try:
            receive(data)
        except ProtocolError as fault:
            self.violation("bad bytes from a peer", fault=str(fault))
        except MemoryError:
            self.violation("no memory for a peer", held=self.buffered)
            self._service.buffered.free_half()
        except Exception:
            log.exception("receiving failed", peer=self.address)
            self.abort("internal error while receiving")

    def _receive_raw(self, data: memoryview) -> None:
        if self._security.session is not None:
            data = self._security.receive(data, cast(asyncio.Transport, self._stream))
        if data:
            self._receive(data)

    def _receive(self, data: memoryview | bytes) -> None:
        if self._head_first is None or not data:
            self._take(data)
            return
        for piece in self._head_first.pieces(data):
            if self.is_open:
                self._take(piece)
        if self.stranger is None:
            self._head_first = None

    def _take(self, data: memoryview | bytes) -> None:
        events = self._session.receive(data)
        for event in events:
            kind = type(event)
            if kind is MessageArrived:
                self._message_came(cast(MessageArrived, event))
            elif kind is HalfClosed:
                self._half_closed(cast(HalfClosed, event).stream)
            elif kind is CallBegun:
                self._call_began(cast(CallBegun, event))
            elif kind is CallReset:
                self._call_reset(cast(CallReset, event).stream)
            else:
                self._session_closed(str(event[0]))
                return
        if self._hot is not None and self._hot.settle():
            self._hot_calls_ended()
        if self._room:
            self._wake_senders()
        self._is_unflushed = True
        if events:
            self._service.serve_arrived()
        self.flush()

    def _hot_calls_ended(self) -> None:
        self._active_at = self._service.clock.monotonic()
        if self._deadlines.deadlines:
            self._deadlines.end("opening_s")
            self._deadlines.end("frame_s")

    def _call_began(self, event: CallBegun) -> None:
        self._deadlines.end("opening_s")
        if not self._calls:
            self._deadlines.end("idle_s")
        try:
            call = self._service.begin(self, event.stream, event.headers)
        except GrpcError as refusal:
            self._session.finish(event.stream, refusal.status, refusal.text)
            self._rest()
            self._note_refusal()
        except StrangerRefused as refusal:
            self._session.send(event.stream, refusal.message)
            self._session.finish(event.stream, 0)
            self._rest()
            self._note_refusal()
        else:
            self._calls[event.stream] = call
            if call.handler.unary is None and not self._deadlines.deadlines:
                self._deadlines.stop()  # it may be open for hours: the timer goes, too

    def _note_refusal(self) -> None:
        if self.stranger is not None:
            self.stranger.note_refusal()

    def _message_came(self, event: MessageArrived) -> None:
        self._deadlines.end("frame_s")
        call = self._calls.get(event.stream)
        if call is None:
            return
        if call.handler.unary is not None:
            self._hold(len(event.message))
        try:
            call.message_came(event.message)
        except GrpcError as refusal:
            self._service.refuse(call, refusal)
        else:
            if call.handler.listener is not None:
                self._service.has_news(self, call)

    def _half_closed(self, stream: int) -> None:
        call = self._calls.get(stream)
        if call is not None:
            call.half_closed()
            if call.handler.stream is None:
                self._service.has_news(self, call)

    def _call_reset(self, stream: int) -> None:
        call = self._calls.get(stream)
        if call is not None:
            self._forget(call)
            self._service.cancel(call)

    def _session_closed(self, reason: str) -> None:
        """Say why, and end it."""
        self._is_ending = True
        self._service.warn.warning("bad bytes from a peer", peer=self.address, fault=reason)
        self._is_unflushed = True
        self.close(reason)

    # --- what the service and its calls do ---------------------------------------------------------------------------

    def answer(self, call: ServerCall, message: bytes) -> None:
        """Send the message of a unary call, and end it with OK."""
        self._session.send(call.stream, message)
        self._session.finish(call.stream, 0)
        self._over(call)

    def end(self, call: ServerCall, status: int, text: str) -> None:
        self._session.finish(call.stream, status, text)
        self._over(call)

    def _over(self, call: ServerCall) -> None:
        if self._calls.get(call.stream) is call:
            self._forget(call)
            self._unflushed()

    def _forget(self, call: ServerCall) -> None:
        del self._calls[call.stream]
        if call.handler.unary is not None:
            self._hold(-call.received_bytes)
        if self._room:
            self._wake(call)
        self._active_at = self._service.clock.monotonic()
        self._rest()

    def _rest(self) -> None:
        """Count the time for which there is no call."""
        if not self._calls:
            self._expect("idle_s", self._service.limits.idle_s)

    def send_message(self, call: ServerCall, message: bytes) -> None:
        if self._calls.get(call.stream) is call:
            self._session.send(call.stream, message)
            self._unflushed()
            self._ready_bytes += len(message)
            if self._ready_bytes > _FLUSH_BYTES:
                self.flush()  # so that a handler that never waits comes to know that the socket is full
            self._count()

    def has_room(self, call: ServerCall) -> bool:
        """Return whether the peer takes what is sent: neither its window nor its socket is full."""
        if self._calls.get(call.stream) is not call:
            return True  # it is over: nothing is sent
        return not self._flow.is_blocked and self._session.unsent(call.stream) <= _SEND_AHEAD

    def when_room(self, call: ServerCall) -> asyncio.Future[None]:
        """Return a future that is done when there may be room, or the call is over."""
        if self._room is _NOBODY:
            self._room = {}
        waiter = self._room.get(call)
        if waiter is None or waiter.done():
            waiter = self._room[call] = asyncio.get_running_loop().create_future()
        return waiter

    def say_goaway(self) -> None:
        """Tell the client that it gets no new calls here; those that are open go on."""
        self._session.goaway()
        self._unflushed()

    def _wake_senders(self) -> None:
        for call in tuple(self._room):
            if self.has_room(call):
                self._wake(call)

    def _wake(self, call: ServerCall) -> None:
        waiter = self._room.pop(call, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _unflushed(self) -> None:
        if not self._is_unflushed and self.is_open:
            self._is_unflushed = True
            self._service.flush_soon(self)

    def flush(self) -> None:
        """Write what the session has ready. The service calls it at the end of each turn."""
        if not self._is_unflushed or self._stream is None or not self.is_open:
            return
        self._is_unflushed = False
        self._ready_bytes = 0
        try:
            output = self._session.take_output()
            if output:
                tls = self._security.session
                self._stream.write(output if tls is None else tls.encrypt((output,)))
        except ProtocolError as fault:  # TLS that came to its end
            self.violation("bad bytes from a peer", fault=str(fault))
            return
        if self._session.is_closed and not self._is_ending:
            self._receive(b"")  # it says why
        if self._flow.reasons:
            self._check_write_buffer()
        if self._room:
            self._wake_senders()  # what was taken waits no longer
        self._count()
        self._service.rest_soon()

    # --- back-pressure -----------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._flow.pause(Pause.BLOCKED)
        self._expect("blocked_s", self._service.limits.blocked_s)
        self._service.suspend(self)
        self._check_write_buffer()

    def resume_writing(self) -> None:
        self._deadlines.end("blocked_s")
        self._flow.unblock()
        self._service.resume(self)
        self._wake_senders()

    # --- answers of the kernel that wait for the log -----------------------------------------------------------------

    def send_frames(self, frames: bytes) -> None:
        """Answer calls whose messages are as safe as they must be."""
        if self._hot is not None:
            self._hot.answer(frames)
            self._unflushed()

    def replies_pending(self, change: int) -> None:
        self._flow.replies_pending(change)

    def _check_write_buffer(self) -> None:
        if self._stream is not None and self._flow.is_blocked:
            limit = self._service.limits.write_max_bytes
            if self._flow.count_unread() > limit:
                self.violation("peer does not read", limit="write_max_bytes", value=limit)

    def _count(self) -> None:
        """Let the budget know what is kept for this peer; it may cut the connection off then."""
        session = self._session
        kept = session.pending_bytes + session.unsent_bytes + self._request_bytes
        if kept != self._kept:
            change, self._kept = kept - self._kept, kept
            self._account(change)
        if session.pending_bytes:
            self._expect("frame_s", self._service.limits.frame_s)

    def _hold(self, change: int) -> None:
        """Count bytes of requests in work; nothing is read while there are too many."""
        self._request_bytes += change
        most = self._service.limits.unfinished_bytes
        if self._request_bytes >= most:
            self._flow.pause(Pause.UNFINISHED)
        elif self._request_bytes <= most // 2:
            self._flow.resume(Pause.UNFINISHED)

    def _drop_buffered(self) -> None:
        kept, self._kept = self._kept, 0
        self._account(-kept)
        self._flow.drop_unread()

    def _account(self, change: int) -> None:
        if change:
            if self.stranger is not None:
                self.stranger.hold(change)
            self._service.buffered.change(self, change)

    def stalled_since(self) -> float:
        """Return when the message began that has not ended, or when the peer stopped reading; infinity if neither."""
        limits, deadlines = self._service.limits, self._deadlines.deadlines
        frame, blocked = deadlines.get("frame_s", NEVER), deadlines.get("blocked_s", NEVER)
        return min(frame - limits.frame_s, blocked - limits.blocked_s)
