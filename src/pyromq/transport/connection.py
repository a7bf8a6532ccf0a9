"""One peer over one stream: bytes in to commands, commands out to bytes, our calls by opaque, back-pressure.

Server and client both make these; what they share (clock, limits, who serves requests) is the `Owner`. A connection
decides nothing about requests: it hands them to its owner, which answers through `send`. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import IntFlag
from typing import Any, Protocol, cast

from .. import logs
from ..ambient import Clock, Timer
from ..errors import CallFailed, CallTimedOut, ConnectionLost, ProtocolError
from ..kernel.seam import Fed, Feed, Waiting
from ..model.client_info import Language
from ..model.codes import ResponseCode
from ..protocol.command import RESPONSE_FLAG, Command
from ..protocol.frame import encode_frame_head
from .address import socket_address
from .calls import PendingCalls
from .inbox import Inbox
from .limits import Limits
from .tls import Opening, TlsSession
from .watchdog import Watchdog

log = logs.get("pyromq.transport")

_FLUSH_BYTES = 64 << 10  # written at once when this much has gathered, and not joined beyond


class Owner(Protocol):
    """What a connection asks of the server or client that it belongs to."""

    clock: Clock
    limits: Limits
    warn: logs.Limited
    feed: Feed
    buffer: memoryview  # received bytes land here; shared, since they are dealt with before the next read

    def opened(self, connection: Connection) -> bool:
        """False: one too many, do not serve it."""
        ...

    def closed(self, connection: Connection) -> None: ...

    def submit(self, connection: Connection, requests: Sequence[Command]) -> None: ...

    def park(self, connection: Connection, waiting: Sequence[Waiting]) -> None: ...

    def flush_soon(self, connection: Connection) -> None: ...

    def hold(self, connection: Connection) -> None:
        """The peer does not read: serve no more of its requests."""
        ...

    def resume(self, connection: Connection) -> None: ...

    def account(self, change: int) -> bool:
        """Bytes that are held for peers; False: over the limit."""
        ...


class _Pause(IntFlag):
    """Why we do not read from the peer."""

    BLOCKED = 1  # it does not read from us
    UNFINISHED = 2  # it has asked for enough


class Connection(asyncio.BufferedProtocol):
    """Implements `Peer` for the rooms above and `FeedConnection` for the kernel."""

    def __init__(
        self, owner: Owner, *, opening: Opening | None = None, tls: TlsSession | None = None, listener: str = ""
    ) -> None:
        """Server side: `opening` decides by the first byte. Client side: plain, or with a TLS session."""
        self._owner = owner
        self._opening = opening
        self._tls = tls
        self.listener = listener
        self.address = "unknown"
        self.language: Language | None = None
        self.version = 0
        self.unfinished = 0
        self.notes: Any = None
        self._unfinished_bytes = 0
        self._stream: asyncio.Transport | None = None
        self._is_open = False
        self._close_reason = "closed by the peer"
        self._inbox = Inbox(owner.limits.frame)
        self._calls = PendingCalls()
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._held = 0  # our part of what the owner accounts for
        self._pauses = _Pause(0)
        self._writable: asyncio.Future[None] | None = None  # set while calls wait for the write buffer
        self._watchdog: Watchdog | None = None
        self._linger: Timer | None = None
        self._secured: asyncio.Future[None] | None = None  # client side: done when the TLS handshake is
        self._gone: asyncio.Event | None = None  # made for those who wait for the end

    def __repr__(self) -> str:
        return f"<Connection {self.address}>"

    # --- asyncio's side ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # by interface: uvloop's are of another family
        self._stream = stream
        self.address = socket_address(stream.get_extra_info("peername"))
        self._is_open = True
        if not self._owner.opened(self):
            self.abort("refused")
            return
        limits = self._owner.limits
        stream.set_write_buffer_limits(high=limits.write_high_bytes)
        self._watchdog = Watchdog(self._owner.clock, limits.idle_s, self._late)
        if self._opening is not None or self._tls is not None:
            self._watchdog.expect("opening_s", limits.opening_s)
        if self._tls is not None:
            self._secured = asyncio.get_running_loop().create_future()
            self._secured.add_done_callback(_retrieve)
            stream.write(self._tls.take_outgoing())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.receive(self._owner.buffer[:nbytes])

    def eof_received(self) -> None:
        """The stream is closed by asyncio; nothing that is still to be answered could be trusted to arrive."""

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._is_open:
            self._close_reason = str(exc)
        self._is_open = False
        self._stream = None
        for timer in (self._watchdog, self._linger):
            if isinstance(timer, Watchdog):
                timer.stop()
            elif timer is not None:
                timer.cancel()
        self._out.clear()
        self._owner.account(-self._held)
        self._held = 0
        self._calls.fail_all(self._lost())
        for waiter in (self._writable, self._secured):
            if waiter is not None and not waiter.done():
                waiter.set_exception(self._lost())
        if self._gone is not None:
            self._gone.set()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        self._owner.hold(self)
        self._pause(_Pause.BLOCKED)
        if self._watchdog is not None:
            self._watchdog.expect("blocked_s", self._owner.limits.blocked_s)
        self._hold_bytes()

    def resume_writing(self) -> None:
        if self._watchdog is not None:
            self._watchdog.met("blocked_s")
        self._unpause(_Pause.BLOCKED)
        self._hold_bytes()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self._owner.resume(self)

    async def ready(self) -> None:
        """Client side: connected, and secured if TLS was asked for. ConnectionLost if that failed."""
        if self._secured is not None:
            await self._secured
        if not self._is_open:
            raise self._lost()

    async def gone(self) -> None:
        """Closed to the last byte."""
        if self._stream is not None:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.address} ended: {self._close_reason}")

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: memoryview) -> None:
        """Bytes from the wire. Whatever is wrong with them ends this connection and nothing else."""
        if not self._is_open or self._watchdog is None:
            return
        self._watchdog.active_at = self._owner.clock.monotonic()
        try:
            if self._opening is not None:
                self._tls = self._opening(data[0])
                self._opening = None
            if self._tls is not None:
                data = memoryview(self._decrypt(self._tls, data))
            if data:
                self._take(data)
        except ProtocolError as fault:
            self.violation("bad bytes from a peer", fault=str(fault))
        except Exception:
            log.exception("receiving failed", peer=self.address)
            self.abort("internal error while receiving")

    def _decrypt(self, tls: TlsSession, data: memoryview) -> bytes:
        try:
            plain = tls.receive(data)
        finally:
            if self._stream is not None and (answer := tls.take_outgoing()):
                self._stream.write(answer)
        if self._secured is not None and tls.is_ready and not self._secured.done():
            self._secured.set_result(None)
            if self._watchdog is not None:
                self._watchdog.met("opening_s")
        return plain

    def _take(self, data: memoryview) -> None:
        fed, commands = self._inbox.receive(self._owner.feed, self, data)
        self._hold_bytes()
        if self._watchdog is None:
            return
        if self._inbox.held:
            if commands or fed.used:
                self._watchdog.met("frame_s")
            self._watchdog.expect("frame_s", self._owner.limits.frame_s)
        else:
            self._watchdog.met("frame_s")
        if commands or fed.used:
            self._watchdog.met("opening_s")
        self._answer_fed(fed)
        requests = [command for command in commands if not command.flag & RESPONSE_FLAG]
        if len(requests) < len(commands):
            self._resolve(commands)
        if requests:
            self._submit(requests)

    def _answer_fed(self, fed: Fed) -> None:
        if fed.ready:
            self._write(fed.ready)
        if fed.waiting:
            self._owner.park(self, fed.waiting)

    def _resolve(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if command.flag & RESPONSE_FLAG and not self._calls.resolve(command):
                log.debug("response that nobody waits for", peer=self.address, opaque=command.opaque)

    def _submit(self, requests: Sequence[Command]) -> None:
        last = requests[-1]
        self.language, self.version = last.language, last.version
        self.unfinished += len(requests)
        self._unfinished_bytes += sum(len(request.body) for request in requests)
        limits = self._owner.limits
        if self.unfinished >= limits.unfinished_requests or self._unfinished_bytes >= limits.unfinished_bytes:
            self._pause(_Pause.UNFINISHED)
        self._hold_bytes()
        self._owner.submit(self, requests)

    def finished(self, request: Command) -> None:
        """The owner is done with a request: answered, handed over to be answered later, or dropped."""
        self.unfinished -= 1
        self._unfinished_bytes -= len(request.body)
        limits = self._owner.limits
        if (
            self._pauses & _Pause.UNFINISHED
            and self.unfinished <= limits.unfinished_requests // 2
            and self._unfinished_bytes <= limits.unfinished_bytes // 2
        ):
            self._unpause(_Pause.UNFINISHED)
        self._hold_bytes()

    # --- sending -----------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._is_open

    async def call(self, request: Command, timeout_s: float) -> Command:
        """Send and await the response. The opaque is ours to set."""
        if not self._is_open:
            raise self._lost()
        opaque, waiter = self._calls.open()
        request.opaque = opaque
        timer = self._owner.clock.call_later(timeout_s, self._expire, opaque, request.code, timeout_s)
        try:
            if self._pauses & _Pause.BLOCKED:
                await self._until_writable(waiter)
            self.send(request)
            return await waiter
        finally:
            timer.cancel()
            self._calls.forget(opaque)

    @property
    def pending_calls(self) -> int:
        return len(self._calls)

    async def _until_writable(self, waiter: asyncio.Future[Command]) -> None:
        """The peer does not read: more requests wait here instead of in the write buffer."""
        if self._writable is None:
            self._writable = asyncio.get_running_loop().create_future()
            self._writable.add_done_callback(_retrieve)
        await asyncio.wait((self._writable, waiter), return_when=asyncio.FIRST_COMPLETED)
        if waiter.done():
            waiter.result()  # timed out or lost meanwhile

    def _expire(self, opaque: int, code: int, timeout_s: float) -> None:
        self._calls.fail(opaque, CallTimedOut(f"{self.address} did not answer request {code} within {timeout_s:g} s"))

    def send(self, command: Command) -> None:
        """Write without waiting. CallFailed if it is over the frame limit; a response that is becomes an error."""
        if not self._is_open:
            return
        head = encode_frame_head(command, len(command.body))
        limit = self._owner.limits.frame
        size = len(head) + len(command.body) - 4
        header_size = len(head) - 8
        if size > limit.frame_bytes or header_size > limit.header_bytes:
            what = f"of {size} bytes with a header of {header_size}"
            self._refuse_to_send(command, f"{what}: the limits are {limit.frame_bytes} and {limit.header_bytes}")
            return
        if len(command.body) < _FLUSH_BYTES:
            self._write(head + command.body)
        else:
            self._write(head, command.body)

    def _refuse_to_send(self, command: Command, why: str) -> None:
        if not command.is_response:
            raise CallFailed(f"request {command.code} to {self.address} cannot be sent, it is a frame {why}")
        log.warning("answer too large", peer=self.address, code=command.code, why=why)
        self.send(
            Command(
                code=ResponseCode.SYSTEM_ERROR,
                opaque=command.opaque,
                flag=RESPONSE_FLAG,
                remark=f"the answer would be a frame {why}; ask for less",
                encoding=command.encoding,
            )
        )

    def send_frames(self, frames: bytes) -> None:
        """Frames that are encoded already (replies of a kernel)."""
        if self._is_open:
            self._write(frames)

    def _write(self, *parts: bytes | memoryview) -> None:
        if not self._out:
            self._owner.flush_soon(self)
        self._out.extend(parts)
        self._out_bytes += sum(map(len, parts))
        if self._out_bytes >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered since the last time, in one piece if it is small."""
        out, size = self._out, self._out_bytes
        if not out or self._stream is None:
            return
        self._out, self._out_bytes = [], 0
        if self._watchdog is not None:
            self._watchdog.active_at = self._owner.clock.monotonic()
        if self._tls is not None:
            self._stream.write(self._tls.encrypt(out))
        elif len(out) == 1:
            self._stream.write(out[0])
        elif size < 2 * _FLUSH_BYTES:
            self._stream.write(b"".join(out))
        else:
            self._stream.writelines(out)
        if self._pauses & _Pause.BLOCKED:
            self._check_write_buffer()

    def _check_write_buffer(self) -> None:
        self._hold_bytes()
        limit = self._owner.limits.write_max_bytes
        if self._stream is not None and self._stream.get_write_buffer_size() > limit:
            self.violation("peer does not read", limit="write_max_bytes", value=limit)

    # --- back-pressure and the end -----------------------------------------------------------------------------------

    def _pause(self, why: _Pause) -> None:
        if not self._pauses and self._stream is not None:
            self._stream.pause_reading()
        self._pauses |= why

    def _unpause(self, why: _Pause) -> None:
        was, self._pauses = self._pauses, self._pauses & ~why
        if was and not self._pauses and self._stream is not None and not self._stream.is_closing():
            self._stream.resume_reading()

    def _hold_bytes(self) -> None:
        """Tell the owner what we hold for this peer. Over the limit, the one that grows is the one that goes."""
        held = self._inbox.held + self._unfinished_bytes
        if self._pauses & _Pause.BLOCKED and self._stream is not None:
            held += self._stream.get_write_buffer_size()
        change, self._held = held - self._held, held
        if change and not self._owner.account(change) and change > 0:
            self.violation("too much held for peers", limit="held_bytes", value=self._owner.limits.held_bytes)

    def _late(self, name: str) -> None:
        seconds: float = getattr(self._owner.limits, name)
        if name == "idle_s":
            log.debug("idle connection closed", peer=self.address, limit=name, value=seconds)
            self.close("idle")
        else:
            self.violation("slow peer", limit=name, value=seconds)

    def violation(self, event: str, **fields: object) -> None:
        """One rate-limited line, and the connection is cut."""
        if self._is_open:
            self._owner.warn.warning(event, peer=self.address, **fields)
            self.abort(event)

    def close(self, reason: str) -> None:
        """What was sent before still leaves, for as long as limits.linger_s."""
        if not self._is_open or self._stream is None:
            return
        self.flush()
        self._is_open = False
        self._close_reason = reason
        if self._tls is not None:
            self._stream.write(self._tls.close())
        self._stream.close()
        self._linger = self._owner.clock.call_later(self._owner.limits.linger_s, self._stream.abort)

    def abort(self, reason: str) -> None:
        """Cut it off; what was not written yet is lost."""
        self._is_open = False
        self._close_reason = reason
        if self._stream is not None:
            self._stream.abort()


def _retrieve(future: asyncio.Future[None]) -> None:
    """The waiters look at their own future; nobody may be left to look at this one."""
    if not future.cancelled():
        future.exception()
