"""One peer over one stream: bytes in to commands, commands out to bytes, our calls by opaque.

Server and client both make these; what they share (clock, limits, who serves requests) is the `Owner`. A connection
decides nothing about requests: it hands them to its owner, which answers through `send`. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from ... import logs
from ...ambient import Timer
from ...errors import CallTimedOut, ConnectionLost, ProtocolError
from ...kernel.seam import Fed, PendingReply, feed_nothing
from ...model.client_info import Language
from ...protocol.command import RESPONSE_FLAG, Command
from ..address import socket_address
from ..tls import Opening, TlsSession
from ..turns.long_turns import LONG_BYTES
from ..turns.timeouts import NEVER, Watchdog
from .calls import PendingCalls
from .flow import FlowControl, Pause
from .frames import FLUSH_BYTES, AnswerTooLarge, Inbox, Outbox, encode_within
from .owner import Owner
from .security import Security
from .strangers import Stranger

log = logs.get("pyromq.transport")


class Connection(asyncio.BufferedProtocol):
    """Implements `Peer` for the rooms above and `FeedConnection` for the kernel."""

    def __init__(
        self,
        owner: Owner[Connection],
        *,
        opening: Opening | None = None,
        tls: TlsSession | None = None,
        security: Security | None = None,
        listener: str = "",
        address: str = "unknown",
        source: str = "",
    ) -> None:
        """Server side: `opening` decides by the first byte, or `security` has decided (`sniff.py`), and `source` is
        the peer's address where a proxy named it. Client side: plain, or with a TLS session, to `address`.
        """
        self.listener = listener
        self.address = address
        self.language: Language | None = None
        self.version = 0
        self.buffered = 0  # bytes, as `buffered_bytes.py` counts them
        self.notes: Any = None
        self.is_open = False
        self.has_spoken = False  # a whole frame has come
        self.was_cut = False  # by us: a violation, or the end of the grace
        self.stranger: Stranger | None = None  # until the peer has shown who it is, where everybody is asked
        self._owner = owner
        self._security = security or Security(opening, tls)
        self._source = source
        self._is_usual = False  # plain bytes, the first whole frames have come, and the last one had its end
        self._answered = 0  # bytes of the kernel's answers in its last turn
        self._postponed = b""  # came, and waits for the next pass of the loop
        self._inbox = Inbox(owner.limits.frame)
        self._calls = PendingCalls(owner.clock, self._timed_out)
        self._close_reason = "closed by the peer"
        self._ended_by_peer = False
        self._linger: Timer | None = None
        self._gone: asyncio.Event | None = None  # made for those who wait for the end
        # asyncio's protocols are made before their streams: set from connection_made to connection_lost.
        self._stream: asyncio.Transport | None = None
        self._flow: FlowControl
        self._outbox: Outbox
        self._watchdog: Watchdog

    @property
    def identity(self) -> str | None:
        """Return the common name in the peer's certificate; None: it showed none, or none was asked for."""
        session = self._security.session
        return None if session is None else session.identity

    def __repr__(self) -> str:
        return f"<Connection {self.address}>"

    @property
    def answers_later(self) -> bool:
        return True

    @property
    def unfinished(self) -> int:
        return self._flow.requests.count

    @property
    def unfinished_sends(self) -> int:
        return self._flow.requests.sends

    # --- beginning and end -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # by interface: uvloop's are of another family
        limits, self._stream, self.is_open = self._owner.limits, stream, True
        peer = stream.get_extra_info("peername")  # None of a connection that was reset meanwhile
        self.address = self._source or (socket_address(peer) if peer else self.address)
        self._flow = FlowControl(stream, limits, self._account)
        self._outbox = Outbox(stream, self._security.session)
        self._watchdog = Watchdog(self._owner.clock, limits.idle_s, self._late)
        stream.set_write_buffer_limits(high=self._owner.buffered.add_stream(limits.write_high_bytes))
        if self._security.is_undecided or self._security.session is not None:
            self._watchdog.expect("opening_s", limits.opening_s)
        self._security.start(stream)
        if not self._owner.opened(self):
            self.abort("refused")

    def meet(self, stranger: Stranger) -> None:
        """Hold the peer to the limits of strangers until it has shown who it is. No kernel sees its bytes."""
        self.stranger = stranger
        stranger.meet(self)
        strict = self._owner.limits.strangers
        if strict is not None:
            self._inbox.limits = strict.frame

    def recognised(self) -> None:
        """Hold the peer to the limits of all others from now on: it has shown who it is."""
        self.stranger, self._inbox.limits = None, self._owner.limits.frame

    async def ready(self) -> None:
        """Wait, as a client, until the connection is made, with TLS if asked for. ConnectionLost if that failed."""
        if self._security.handshake is not None:
            await self._security.handshake
        if not self.is_open:
            raise self._lost()

    async def gone(self) -> None:
        """Wait until the connection is closed to the last byte."""
        if self._stream is not None:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def close(self, reason: str) -> None:
        """Close the connection. What was sent before still leaves, for as long as limits.linger_s."""
        if not self.is_open or self._stream is None:
            return
        self.flush()
        self.is_open = False
        self._close_reason = reason
        if self._security.session is not None:
            self._stream.write(self._security.session.close())
        self._stream.close()
        self._linger = self._owner.clock.call_later(self._owner.limits.linger_s, self._stream.abort)

    def abort(self, reason: str) -> None:
        """Cut the connection off; what was not written yet is lost."""
        if self.is_open:
            self._close_reason = reason
        self.is_open, self.was_cut = False, True
        if self._stream is not None:
            self._drop_buffered()  # now, not when the stream has ended: others may use it
            self._stream.abort()

    def violation(self, event: str, **fields: object) -> None:
        """Log one rate-limited line that says what was wrong, and cut the connection."""
        if self.is_open:
            self._owner.warn.warning(event, peer=self.address, **fields)
            self.abort(f"{event}: {fields['fault']}" if "fault" in fields else event)

    def eof_received(self) -> None:
        """Let asyncio close the stream: a peer that shut down its half gets no more answers, as from Java."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open and exc is not None:
            self._close_reason = str(exc)
        self._ended_by_peer = self.is_open
        self.is_open = False
        self._stream = None
        self._owner.buffered.remove_stream()
        self._watchdog.stop()
        if self._linger is not None:
            self._linger.cancel()
        self._drop_buffered()
        self._calls.fail_all(self._lost())
        self._security.end(self._lost())
        self._flow.wake()
        if self._gone is not None:
            self._gone.set()
        self._owner.closed(self)

    def _lost(self) -> ConnectionLost:
        hint = "" if self.has_spoken else self._security.hint(self._close_reason, self._ended_by_peer)
        return ConnectionLost(f"the connection to {self.address} ended: {self._close_reason}", hint=hint)

    def _late(self, name: str) -> None:
        seconds: float = getattr(self._owner.limits, name)
        if name == "idle_s":
            log.debug("idle connection closed", peer=self.address, limit=name, value=seconds)
            self.close("idle")
        else:
            self.violation("slow peer", limit=name, value=seconds)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the whole buffer in the middle of a large frame, else the part for one turn."""
        owner = self._owner
        return owner.buffer if self._inbox.needed > len(owner.turn_buffer) else owner.turn_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Serve bytes from the wire, now or, where others have much to do too, in the next pass of the loop."""
        if not self.is_open:
            return
        owner = self._owner
        now = self._watchdog.active_at = owner.clock.monotonic()
        data = owner.buffer[:nbytes]
        if nbytes + self._answered >= LONG_BYTES and owner.long_turns.must_wait(now):
            self._postponed = bytes(data)
            self._flow.pause(Pause.POSTPONED)
            owner.long_turns.wait(self)
            self._account(nbytes)
        else:
            self._take(data, now)

    def take_postponed(self) -> None:
        """Serve the bytes that were kept for this pass of the loop."""
        data = memoryview(self._postponed)
        self._forget_postponed()
        if data and self.is_open:
            self._flow.resume(Pause.POSTPONED)
            self._take(data, self._owner.clock.monotonic())

    def _take(self, data: memoryview, now: float) -> None:
        """Serve bytes. Whatever is wrong with them ends this connection and nothing else."""
        owner, self._answered = self._owner, 0
        try:
            if not self._is_usual:
                self._receive_unfed(data)
            elif isinstance(fed := owner.feed(self, data), bytes):
                if fed:  # nearly always all of it was the kernel's: then this is all that there is to do
                    self._answered = len(fed)
                    self.send_now(fed)
            else:
                self._receive(data, fed)
        except Exception as fault:
            self._receiving_failed(fault)
        if len(data) >= len(owner.turn_buffer):
            # The buffer was full, so more is waiting: uvloop would read on for this connection, up to 32 times.
            self._flow.yield_turn()
        if len(data) + self._answered < LONG_BYTES:
            owner.long_turns.short_at = now
        else:
            owner.long_turns.ended(now)

    def begin(self, stream: asyncio.Transport, data: memoryview) -> None:
        """Take over a stream whose first bytes are these, in plain."""
        self.connection_made(stream)
        if self.is_open:
            try:
                self._receive(data)
            except Exception as fault:
                self._receiving_failed(fault)

    def _receiving_failed(self, fault: Exception) -> None:
        if isinstance(fault, MemoryError):
            self._no_memory()
        elif not isinstance(fault, ProtocolError):
            log.exception("receiving failed", peer=self.address)
            self.abort("internal error while receiving")
        elif self._security.handshake is not None and not self.has_spoken:
            self.abort(str(fault))  # our TLS does not fit theirs: who wants to connect says so
        else:
            if self.stranger is not None:
                self.stranger.note_fault("stranger_frame")
            self.violation("bad bytes from a peer", fault=str(fault))

    def _receive_unfed(self, data: memoryview) -> None:
        """Serve bytes that the kernel may not see: the first ones, TLS, and the rest of an unfinished frame."""
        security, stream = self._security, cast(asyncio.Transport, self._stream)
        data = security.receive(data, stream)
        self._outbox.tls = security.session
        if security.handshake is not None and security.handshake.done():
            self._watchdog.end("opening_s")
        if data:
            self._receive(data)

    def _receive(self, data: memoryview, fed: Fed | None = None) -> None:
        tail_before = self._inbox.tail_bytes
        feed = self._owner.feed if self.stranger is None else feed_nothing
        fed, commands = self._inbox.receive(feed, self, data, fed)
        if self.was_cut:
            self._forget_received(len(data) if tail_before else 0)
            return
        tail = self._inbox.tail_bytes
        self._note_frames(bool(commands or fed.used), tail)
        if tail != tail_before:
            self._account(tail - tail_before)
            if not self.is_open:
                return  # that was too much
        if fed.ready and not commands:
            self.send_now(fed.ready)
        elif fed.ready:
            self.send_frames(fed.ready)
        self._answered = len(fed.ready)
        if fed.waiting:
            self._answered += sum(len(replies) for _, replies in fed.waiting)
            self._owner.reply_when_readable(self, fed.waiting)
        if commands:
            self._hand_out(commands, tail_before + len(data) - tail)
        if fed.drain:
            self._flow.drain()

    def _forget_received(self, uncounted: int) -> None:
        """Forget what a feed was given that cut us off. `uncounted`: dropped with the tail, which they had joined."""
        self._inbox.drop()
        self._account(uncounted)

    def _note_frames(self, are_whole: bool, tail: int) -> None:
        """Note whether whole frames have come, and how much of the next: that is due within its time."""
        watchdog = self._watchdog
        if are_whole:
            self.has_spoken = True
            if watchdog.deadlines:
                watchdog.end("opening_s")
                watchdog.end("frame_s")
        self._is_usual = not tail and self._outbox.tls is None and self.has_spoken and self.stranger is None
        if tail:
            watchdog.expect("frame_s", self._owner.limits.frame_s)

    def _hand_out(self, commands: Sequence[Command], received: int) -> None:
        """Give responses to who waits for them, requests to the owner. `received`: the bytes that they came in."""
        requests = []
        for command in commands:
            if not command.flag & RESPONSE_FLAG:
                requests.append(command)
            elif not self._calls.resolve(command):
                log.debug("response that nobody waits for", peer=self.address, opaque=command.opaque)
        if requests:
            self.language, self.version = requests[-1].language, requests[-1].version
            self._flow.submitted(requests, received)
            self._owner.submit(self, requests)

    def finished(self, request: Command) -> None:
        """Count a request as done by the owner: answered, handed over to be answered later, or dropped."""
        self._flow.finished(request)

    # --- sending -----------------------------------------------------------------------------------------------------

    async def call(self, request: Command, timeout_s: float) -> Command:
        """Send and await the response. The opaque is ours to set."""
        if not self.is_open:
            raise self._lost()
        return await self._calls.call(request, timeout_s, self._flow, self.send)

    @property
    def pending_calls(self) -> int:
        return len(self._calls)

    async def writable(self) -> None:
        """Wait until the peer reads again, if it does not: what is to be sent waits here, not in the write buffer."""
        while self.is_open and self._flow.is_blocked:
            await asyncio.wait((self._flow.unblocked(),))
        if not self.is_open:
            raise self._lost()

    def _timed_out(self, code: int, timeout_s: float) -> CallTimedOut:
        return CallTimedOut(f"{self.address} did not answer request {code} within {timeout_s:.3g} s")

    def send(self, command: Command, at_once: bool = False) -> None:
        """Write without waiting. RequestTooLarge if it is over the frame limit; a response that is becomes an error.

        `at_once`: not at the end of the turn, where nothing is expected to join it.
        """
        if not self.is_open:
            return
        try:
            head = encode_within(command, self._owner.limits.frame.frame_bytes, self.address)
        except AnswerTooLarge as fault:
            self._owner.warn.warning("answer too large", peer=self.address, code=command.code, answer=str(fault))
            self.send(fault.instead)
        else:
            self._write(head, command.body, at_once)

    def send_frames(self, frames: bytes) -> None:
        """Write frames that are encoded already: replies of a kernel."""
        if self.is_open:
            self._write(frames, b"")

    def send_now(self, frames: bytes) -> None:
        """Write, not at the end of the turn, all that a received buffer or a suspended pull is answered with."""
        outbox = self._outbox
        if not self.is_open or self._stream is None or outbox.tls is not None or outbox.parts:
            self.send_frames(frames)
            return
        self._stream.write(frames)
        if self._flow.reasons:
            self._check_write_buffer()

    def send_when_readable(self, frames: bytes, position: int) -> None:
        """Write frames once the log is readable up to a position: what a kernel answers to a request that was held."""
        if self.is_open:
            self._owner.reply_when_readable(self, (PendingReply(position, frames),))

    def _write(self, head: bytes, body: bytes | memoryview, at_once: bool = False) -> None:
        if not self._outbox.parts and not at_once:
            self._owner.flush_soon(self)
        if self._outbox.add(head, body) >= FLUSH_BYTES or at_once:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered. The owner calls it at the end of each turn."""
        if self._stream is None or not self._outbox.parts:
            return
        self._watchdog.active_at = self._owner.clock.monotonic()
        try:
            self._outbox.flush()
        except ProtocolError as fault:  # TLS that came to its end
            self.violation("bad bytes from a peer", fault=str(fault))
        except MemoryError:
            self._no_memory()
        if self._flow.reasons:
            self._check_write_buffer()

    def _no_memory(self) -> None:
        """End the stream, which is out of step: what came or was to be sent is gone, and what it kept is free."""
        self.violation(
            "no memory for a peer", held=self.buffered, remedy="lower heldBytes, or give the process more memory"
        )
        self._owner.buffered.free_half()

    # --- back-pressure -----------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._flow.pause(Pause.BLOCKED)
        self._watchdog.expect("blocked_s", self._owner.limits.blocked_s)
        self._owner.suspend(self)
        self._check_write_buffer()

    def resume_writing(self) -> None:
        self._watchdog.end("blocked_s")
        self._flow.unblock()
        self._owner.resume(self)

    def replies_pending(self, change: int) -> None:
        """Count bytes of replies that wait for the log, more or fewer: while there are many, the peer waits too."""
        self._flow.replies_pending(change)

    def _check_write_buffer(self) -> None:
        """Count what a peer does not read; cut it off above the limit."""
        if self._stream is not None and self._flow.is_blocked:
            limit = self._owner.limits.write_max_bytes
            if self._flow.count_unread() > limit:
                self.violation("peer does not read", limit="write_max_bytes", value=limit)

    def _forget_postponed(self) -> None:
        size, self._postponed = len(self._postponed), b""
        self._account(-size)

    def _drop_buffered(self) -> None:
        self._forget_postponed()
        self._account(-self._inbox.drop())
        self._flow.drop_unread()

    def _account(self, change: int) -> None:
        """Let the owner count what is kept for this peer. It may close this connection then."""
        if change:
            if self.stranger is not None:
                self.stranger.hold(change)
            self._owner.account(self, change)

    def stalled_since(self) -> float:
        """Return when the frame began that has not ended, or when the peer stopped reading; infinity if neither."""
        limits, deadlines = self._owner.limits, self._watchdog.deadlines
        frame, blocked = deadlines.get("frame_s", NEVER), deadlines.get("blocked_s", NEVER)
        return min(frame - limits.frame_s, blocked - limits.blocked_s)
