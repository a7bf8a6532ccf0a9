"""One peer over one stream: bytes in to commands, commands out to bytes, our calls by opaque, back-pressure.

Server and client both make these; what they share (clock, limits, who serves requests) is the `Owner`. A connection
decides nothing about requests: it hands them to its owner, which answers through `send`. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, cast

from ... import logs
from ...ambient import Clock, Timer
from ...errors import CallTimedOut, ConnectionLost, ProtocolError, RequestTooLarge
from ...kernel.seam import Fed, Feed, PendingReply
from ...model.client_info import Language
from ...model.codes import ResponseCode
from ...protocol.command import RESPONSE_FLAG, Command
from ...protocol.frame import DEFAULT_LIMITS, HeaderTooLarge, encode_frame_head
from ..address import socket_address
from ..limits import Limits
from ..tls import Opening, TlsSession
from ..tls_hints import hint as tls_hint
from ..turns.request_class import keeps_order
from .buffered_bytes import BufferedBytes
from .calls import PendingCalls
from .inbox import Inbox
from .outbox import FLUSH_BYTES, Outbox
from .watchdog import NEVER, Watchdog

log = logs.get("pyromq.transport")

_PEER_HEADER_BYTES = DEFAULT_LIMITS.header_bytes  # servers of ours take no larger ones, unless told to
_SMALL_HEADER = 4096  # bytes; less is not counted as held


class Owner(Protocol):
    """What a connection asks of the server or client that it belongs to."""

    clock: Clock
    limits: Limits
    warn: logs.Limited
    feed: Feed
    buffer: memoryview  # received bytes land here; shared, since they are dealt with before the next read
    turn_buffer: memoryview  # the part of it that a connection usually fills in its turn
    held: BufferedBytes

    def opened(self, connection: Connection) -> bool:
        """False: one too many, do not serve it."""
        ...

    def closed(self, connection: Connection) -> None: ...

    def submit(self, connection: Connection, requests: Sequence[Command]) -> None: ...

    def reply_when_readable(self, connection: Connection, waiting: Sequence[PendingReply]) -> None: ...

    def flush_soon(self, connection: Connection) -> None: ...

    def hold(self, connection: Connection) -> None:
        """The peer does not read: serve no more of its requests."""
        ...

    def resume(self, connection: Connection) -> None: ...

    def account(self, connection: Connection, change: int) -> None:
        """Bytes that are held for this peer, more or fewer. Over the limit a peer is cut off, maybe this one."""
        ...


class Connection(asyncio.BufferedProtocol):
    """Implements `Peer` for the rooms above and `FeedConnection` for the kernel."""

    def __init__(
        self, owner: Owner, *, opening: Opening | None = None, tls: TlsSession | None = None, listener: str = ""
    ) -> None:
        """Server side: `opening` decides by the first byte. Client side: plain, or with a TLS session."""
        self.listener = listener
        self.address = "unknown"
        self.language: Language | None = None
        self.version = 0
        self.unfinished = 0
        self.unfinished_sends = 0
        self.held = 0  # bytes, as `buffered_bytes.py` counts them
        self.notes: Any = None
        self.is_open = False
        self.has_spoken = False  # a whole frame has come
        self.was_cut = False  # by us: a violation, or the end of the grace
        self._owner = owner
        self._opening = opening
        self._tls = tls
        self._is_usual = False  # plain bytes, the first whole frames have come, and the last one had its end
        self._secured: asyncio.Future[None] | None = None  # client side: done when the TLS handshake is
        self._inbox = Inbox(owner.limits.frame)
        self._calls = PendingCalls(owner.clock, self._too_late)
        self._unfinished_bytes = 0
        self._header_bytes = 0  # of these: headers, where they are large
        self._is_overfull = False  # the peer has asked for enough, we do not read on
        self._is_draining = False  # a kernel goes on once Python has finished the sends that it has
        self._is_blocked = False  # the peer does not read from us, we neither read on nor serve it
        self._lets_others_read = False  # until the next pass of the loop
        self._blocked_bytes = 0
        self._pending_reply_bytes = 0
        self._writable: asyncio.Future[None] | None = None  # made for those who wait until it does
        self._close_reason = "closed by the peer"
        self._ended_by_peer = False
        self._linger: Timer | None = None
        self._gone: asyncio.Event | None = None  # made for those who wait for the end
        # Set from connection_made to connection_lost.
        self._stream: asyncio.Transport | None = None
        self._outbox: Outbox
        self._watchdog: Watchdog

    def __repr__(self) -> str:
        return f"<Connection {self.address}>"

    # --- beginning and end -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # by interface: uvloop's are of another family
        limits, self._stream, self.is_open = self._owner.limits, stream, True
        self.address = socket_address(stream.get_extra_info("peername"))
        self._outbox = Outbox(stream, self._tls)
        self._watchdog = Watchdog(self._owner.clock, limits.idle_s, self._late)
        stream.set_write_buffer_limits(high=self._owner.held.joined(limits.write_high_bytes))
        if self._opening is not None or self._tls is not None:
            self._watchdog.expect("opening_s", limits.opening_s)
        if self._tls is not None:
            self._secured = asyncio.get_running_loop().create_future()
            self._secured.add_done_callback(_retrieve)
            stream.write(self._tls.take_outgoing())
        if not self._owner.opened(self):
            self.abort("refused")

    async def ready(self) -> None:
        """Client side: connected, and secured if TLS was asked for. ConnectionLost if that failed."""
        if self._secured is not None:
            await self._secured
        if not self.is_open:
            raise self._lost()

    async def gone(self) -> None:
        """Closed to the last byte."""
        if self._stream is not None:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def close(self, reason: str) -> None:
        """What was sent before still leaves, for as long as limits.linger_s."""
        if not self.is_open or self._stream is None:
            return
        self.flush()
        self.is_open = False
        self._close_reason = reason
        if self._tls is not None:
            self._stream.write(self._tls.close())
        self._stream.close()
        self._linger = self._owner.clock.call_later(self._owner.limits.linger_s, self._stream.abort)

    def abort(self, reason: str) -> None:
        """Cut it off; what was not written yet is lost."""
        if self.is_open:
            self._close_reason = reason
        self.is_open, self.was_cut = False, True
        self._drop_held()  # now, not when the stream has ended: others may use it
        if self._stream is not None:
            self._stream.abort()

    def violation(self, event: str, **fields: object) -> None:
        """One rate-limited line that says what was wrong, and the connection is cut."""
        if self.is_open:
            self._owner.warn.warning(event, peer=self.address, **fields)
            self.abort(f"{event}: {fields['fault']}" if "fault" in fields else event)

    def eof_received(self) -> None:
        """asyncio closes the stream then: a peer that shut down its half gets no more answers, as from Java."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open and exc is not None:
            self._close_reason = str(exc)
        self._ended_by_peer = self.is_open
        self.is_open = False
        self._stream = None
        self._owner.held.left()
        self._watchdog.stop()
        if self._linger is not None:
            self._linger.cancel()
        self._drop_held()
        self._calls.fail_all(self._lost())
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(self._lost())
        self._wake_writers()
        if self._gone is not None:
            self._gone.set()
        self._owner.closed(self)

    def _lost(self) -> ConnectionLost:
        hint = "" if self.has_spoken else self._hint()
        return ConnectionLost(f"the connection to {self.address} ended: {self._close_reason}", hint=hint)

    def _hint(self) -> str:
        tls = self._tls
        is_secured = tls is not None and tls.is_ready
        return tls_hint(self._close_reason, is_tls=tls is not None, is_secured=is_secured, by_peer=self._ended_by_peer)

    def _late(self, name: str) -> None:
        seconds: float = getattr(self._owner.limits, name)
        if name == "idle_s":
            log.debug("idle connection closed", peer=self.address, limit=name, value=seconds)
            self.close("idle")
        else:
            self.violation("slow peer", limit=name, value=seconds)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """All of it for who is in the middle of a frame that is larger than a turn."""
        owner = self._owner
        return owner.buffer if self._inbox.needed > len(owner.turn_buffer) else owner.turn_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes from the wire. Whatever is wrong with them ends this connection and nothing else."""
        if not self.is_open:
            return
        owner = self._owner
        self._watchdog.active_at = owner.clock.monotonic()
        data = owner.buffer[:nbytes]
        try:
            if not self._is_usual:
                self._take_unfed(data)
            elif isinstance(fed := owner.feed(self, data), bytes):
                if fed:  # nearly always all of it was the kernel's: then this is all that there is to do
                    self.send_now(fed)
            else:
                self._take(data, fed)
        except ProtocolError as fault:
            if self._secured is not None and not self.has_spoken:
                self.abort(str(fault))  # our TLS does not fit theirs: who wants to connect tells it
            else:
                self.violation("bad bytes from a peer", fault=str(fault))
        except MemoryError:
            self._no_memory()
        except Exception:
            log.exception("receiving failed", peer=self.address)
            self.abort("internal error while receiving")
        if nbytes >= len(owner.turn_buffer):
            self._let_others_read()

    def _let_others_read(self) -> None:
        """The buffer was full, so more is waiting: uvloop would read on for this connection, up to 32 times."""
        self._lets_others_read = True
        self._read_or_pause()
        asyncio.get_running_loop().call_soon(self._read_again)

    def _read_again(self) -> None:
        self._lets_others_read = False
        self._read_or_pause()

    def _decrypt(self, tls: TlsSession, data: memoryview) -> bytes:
        try:
            plain = tls.receive(data)
        finally:
            if self._stream is not None and (answer := tls.take_outgoing()):
                self._stream.write(answer)
        if self._secured is not None and tls.is_ready and not self._secured.done():
            self._secured.set_result(None)
            self._watchdog.met("opening_s")
        return plain

    def _take_unfed(self, data: memoryview) -> None:
        """The first bytes of a connection, which say whether it speaks TLS, that, or the end of a frame."""
        if self._opening is not None:
            self._tls = self._outbox.tls = self._opening(data[0])
            self._opening = None
        if self._tls is not None:
            data = memoryview(self._decrypt(self._tls, data))
        if data:
            self._take(data)

    def _take(self, data: memoryview, fed: Fed | None = None) -> None:
        held_before = self._inbox.held
        fed, commands = self._inbox.receive(self._owner.feed, self, data, fed)
        if commands or fed.used:
            self.has_spoken = True
            if self._watchdog.deadlines:
                self._watchdog.met("opening_s")
                self._watchdog.met("frame_s")
        held = self._inbox.held
        self._is_usual = not held and self._tls is None and self.has_spoken
        if held:
            self._watchdog.expect("frame_s", self._owner.limits.frame_s)
        if held != held_before:
            self._account(held - held_before)
            if not self.is_open:
                return  # that was too much
        if fed.ready and not commands:
            self.send_now(fed.ready)
        elif fed.ready:
            self.send_frames(fed.ready)
        if fed.waiting:
            self._owner.reply_when_readable(self, fed.waiting)
        if commands:
            self._share_out(commands, held_before + len(data) - held)
        if fed.drain and self.unfinished_sends:
            self._is_draining = True
            self._read_or_pause()

    def _share_out(self, commands: Sequence[Command], received: int) -> None:
        """Responses go to who waits for them, requests to the owner. `received`: the bytes that they came in."""
        requests = [command for command in commands if not command.flag & RESPONSE_FLAG]
        if len(requests) < len(commands):
            self._resolve(commands)
        if requests:
            self._submit(requests, received)

    def _resolve(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if command.flag & RESPONSE_FLAG and not self._calls.resolve(command):
                log.debug("response that nobody waits for", peer=self.address, opaque=command.opaque)

    def _submit(self, requests: Sequence[Command], received: int) -> None:
        last, limits, size = requests[-1], self._owner.limits, sum(len(request.body) for request in requests)
        if received - size > _SMALL_HEADER * len(requests):
            self._header_bytes += received - size
            size = received
        self.language, self.version = last.language, last.version
        self.unfinished += len(requests)
        self.unfinished_sends += sum(keeps_order(request.code) for request in requests)
        self._unfinished_bytes += size
        if self.unfinished >= limits.unfinished_requests or self._unfinished_bytes >= limits.unfinished_bytes:
            self._is_overfull = True
            self._read_or_pause()
        self._account(size)
        self._owner.submit(self, requests)

    def finished(self, request: Command) -> None:
        """The owner is done with a request: answered, handed over to be answered later, or dropped."""
        self.unfinished -= 1
        if keeps_order(request.code):
            self.unfinished_sends -= 1
        if self._is_draining and not self.unfinished_sends:
            self._is_draining = False
            self._read_or_pause()
        size = len(request.body)
        if self._header_bytes:  # nobody counts them one by one: each request takes its share along
            share = self._header_bytes // (self.unfinished + 1)
            self._header_bytes -= share
            size += share
        if size:
            self._unfinished_bytes -= size
            self._account(-size)
        if self._is_overfull:
            limits = self._owner.limits
            self._is_overfull = (
                self.unfinished > limits.unfinished_requests // 2
                or self._unfinished_bytes > limits.unfinished_bytes // 2
            )
            self._read_or_pause()

    # --- sending -----------------------------------------------------------------------------------------------------

    async def call(self, request: Command, timeout_s: float) -> Command:
        """Send and await the response. The opaque is ours to set."""
        if not self.is_open:
            raise self._lost()
        opaque, waiter = self._calls.open(request.code, timeout_s)
        request.opaque = opaque
        try:
            while self._is_blocked and not waiter.done():  # done: timed out or lost meanwhile
                await asyncio.wait((self._unblocked(), waiter), return_when=asyncio.FIRST_COMPLETED)
            if not waiter.done():
                self.send(request, at_once=len(self._calls) == 1)
            return await waiter
        finally:
            self._calls.forget(opaque)

    @property
    def pending_calls(self) -> int:
        return len(self._calls)

    async def writable(self) -> None:
        """Until the peer reads again, if it does not: what is to be sent waits here, not in the write buffer."""
        while self._is_blocked and self.is_open:
            await asyncio.wait((self._unblocked(),))
        if not self.is_open:
            raise self._lost()

    def _unblocked(self) -> asyncio.Future[None]:
        if self._writable is None:
            self._writable = asyncio.get_running_loop().create_future()
        return self._writable

    def _too_late(self, code: int, timeout_s: float) -> CallTimedOut:
        return CallTimedOut(f"{self.address} did not answer request {code} within {timeout_s:.3g} s")

    def send(self, command: Command, *, at_once: bool = False) -> None:
        """Write without waiting. RequestTooLarge if it is over the frame limit; a response that is becomes an error.

        `at_once`: not at the end of the turn, where nothing is expected to join it.
        """
        if not self.is_open:
            return
        body, limit = command.body, self._owner.limits.frame
        try:
            head = encode_frame_head(command, len(body))
        except HeaderTooLarge as fault:
            self._refuse_to_send(command, str(fault))
            return
        total, header = len(head) + len(body) - 4, len(head) - 8
        if total > limit.frame_bytes:
            self._refuse_to_send(command, f"a frame of {total} bytes (the limit is {limit.frame_bytes})")
        elif header > _PEER_HEADER_BYTES and not command.is_response:
            self._refuse_to_send(command, f"a header of {header} bytes (the limit is {_PEER_HEADER_BYTES})")
        else:
            self._write(head, body, at_once)

    def send_frames(self, frames: bytes) -> None:
        """Frames that are encoded already: replies of a kernel."""
        if self.is_open:
            self._write(frames, b"")

    def send_now(self, frames: bytes) -> None:
        """Without waiting for the end of the turn: all that a received buffer or a held pull is answered with."""
        outbox = self._outbox
        if not self.is_open or self._stream is None or outbox.tls is not None or outbox.parts:
            self.send_frames(frames)
            return
        self._stream.write(frames)
        if self._is_blocked:
            self._check_write_buffer()

    def replies_pending(self, change: int) -> None:
        """Bytes of such replies that wait for the log, more or less of them: a peer has to wait for them too."""
        self._pending_reply_bytes += change
        self._account(change)
        self._read_or_pause()

    def _refuse_to_send(self, command: Command, what: str) -> None:
        if not command.is_response:
            raise RequestTooLarge(f"request {command.code} cannot be sent to {self.address}: it is {what}")
        self._owner.warn.warning("answer too large", peer=self.address, code=command.code, answer=what)
        self.send(
            Command(
                code=ResponseCode.SYSTEM_ERROR,
                opaque=command.opaque,
                flag=RESPONSE_FLAG,
                remark=f"the answer would be {what}: ask for less",
                encoding=command.encoding,
            )
        )

    def _write(self, head: bytes, body: bytes | memoryview, at_once: bool = False) -> None:
        if self._outbox.is_empty and not at_once:
            self._owner.flush_soon(self)
        if self._outbox.add(head, body) >= FLUSH_BYTES or at_once:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered. The owner calls it at the end of each turn."""
        if self._stream is None or self._outbox.is_empty:
            return
        self._watchdog.active_at = self._owner.clock.monotonic()
        try:
            self._outbox.flush()
        except ProtocolError as fault:  # TLS that came to its end
            self.violation("bad bytes from a peer", fault=str(fault))
        except MemoryError:
            self._no_memory()
        if self._is_blocked:
            self._check_write_buffer()

    def _no_memory(self) -> None:
        """What came or was to be sent is gone, so the stream is out of step: it ends, and what it held is free."""
        self.violation(
            "no memory for a peer", held=self.held, remedy="lower heldBytes, or give the process more memory"
        )
        self._owner.held.shed()

    # --- back-pressure -----------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._watchdog.expect("blocked_s", self._owner.limits.blocked_s)
        self._owner.hold(self)
        self._read_or_pause()
        self._check_write_buffer()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._watchdog.met("blocked_s")
        self._account(-self._blocked_bytes)
        self._blocked_bytes = 0
        self._wake_writers()
        self._owner.resume(self)
        self._read_or_pause()

    def _wake_writers(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def _check_write_buffer(self) -> None:
        """While the peer does not read, its write buffer counts as held."""
        if self._stream is None:
            return
        size, limit = self._stream.get_write_buffer_size(), self._owner.limits.write_max_bytes
        change, self._blocked_bytes = size - self._blocked_bytes, size
        self._account(change)
        if size > limit:
            self.violation("peer does not read", limit="write_max_bytes", value=limit)

    def _read_or_pause(self) -> None:
        stream = self._stream
        if stream is None or stream.is_closing():
            return
        may_read = not (
            self._is_blocked
            or self._is_overfull
            or self._is_draining
            or self._lets_others_read
            or self._pending_reply_bytes > self._owner.limits.write_high_bytes
        )
        if may_read and not stream.is_reading():
            stream.resume_reading()
        elif not may_read and stream.is_reading():
            stream.pause_reading()

    def _drop_held(self) -> None:
        self._account(-self._inbox.drop() - self._blocked_bytes)
        self._blocked_bytes = 0

    def _account(self, change: int) -> None:
        """Tell the owner what we hold for this peer. This one may be closed then."""
        if change:
            self._owner.account(self, change)

    def stalled_since(self) -> float:
        """When the frame began that has not ended, or when the peer stopped reading; infinity if neither is so."""
        limits, deadlines = self._owner.limits, self._watchdog.deadlines
        frame, blocked = deadlines.get("frame_s", NEVER), deadlines.get("blocked_s", NEVER)
        return min(frame - limits.frame_s, blocked - limits.blocked_s)


def _retrieve(future: asyncio.Future[None]) -> None:
    """The waiters look at their own future; nobody may be left to look at this one."""
    if not future.cancelled():
        future.exception()
