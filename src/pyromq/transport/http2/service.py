"""Serves the gRPC calls of all connections of one server: queue, turn, handler, answer, flush.

As `transport/service.py` does for remoting, and with the same queue: a turn takes a bounded share of each class. A
handler that answers at once costs no task. `Server` makes one where it was given methods; nothing here knows sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from typing import Protocol

from ... import logs
from ...ambient import Clock, Timer
from ...errors import RequestRefused
from ...kernel.http2 import Http2Limits, Rest
from ...protocol.grpc.schema import RPCS
from ...protocol.grpc.status import GrpcStatus
from ...protocol.grpc.timeout import parse_timeout
from ..connection.buffered_bytes import BufferedBytes
from ..connection.flow import UnfinishedRequests
from ..connection.strangers import Stranger
from ..limits import Limits
from ..turns.timeouts import Timeouts
from ..turns.turns import Turns
from .calls import CallListener, GrpcError, Method, Methods, Screen, StrangerRefused
from .hot import HotCalls
from .server_call import CallConnection, ServerCall
from .sessions import RestUnused

log = logs.get("pyromq.transport")

_STOPS = "this server is stopping: use another one, or try again later"
_REST_S = 0.1  # a session that nobody used for so long, or twice, rests
_NEXT_S = 0.01  # between two parts of many
_KNOWN = {rpc.path for rpc in RPCS.values()}


class ServedConnection(CallConnection, Hashable, Protocol):
    """What the service asks of a connection."""

    def answer(self, call: ServerCall, message: bytes) -> None:
        """Send the message of a unary call, and end it with OK."""

    def end(self, call: ServerCall, status: int, text: str) -> None: ...

    def say_goaway(self) -> None: ...

    stranger: Stranger | None

    def flush(self) -> None: ...


class CallService:
    """Event loop only."""

    def __init__(
        self,
        methods: Methods,
        *,
        clock: Clock,
        limits: Limits,
        http2: Http2Limits,
        warn: logs.Limited,
        buffer: memoryview,
        turn_buffer: memoryview,
        buffered: BufferedBytes,
        closed: Callable[..., object],
        rest: RestUnused | None = None,
        screen: Screen | None = None,
    ) -> None:
        """`closed` is told of each connection that has ended; `rest` makes sessions small that nobody uses. `screen`
        judges the first calls of a connection, where everybody is asked who he is."""
        self._screen = screen
        self.clock = clock
        self.limits = limits
        large = {path: method.most_bytes for path, method in methods.items()}
        self.http2 = http2._replace(large={**http2.large, **large})
        self.warn = warn
        self.buffer = buffer
        self.turn_buffer = turn_buffer
        self.buffered = buffered
        self.closed = closed
        self.hot: HotCalls | None = None  # what the kernel serves by itself
        self.no_requests = UnfinishedRequests(limits)  # of remoting: calls are none
        self._methods = methods
        self._turns: Turns[ServedConnection, ServerCall] = Turns(limits.shares, self._serve)
        self._deadlines: Timeouts[ServerCall] = Timeouts(clock, self._expired)
        self._connections: dict[ServedConnection, None] = {}
        self._calls: dict[ServerCall, ServedConnection] = {}
        self._unary = 0  # of these: unary calls
        self._stopping = False
        self._quiet: asyncio.Future[None] | None = None
        self._rest = rest
        self._resting: Timer | None = None

    @property
    def open_calls(self) -> int:
        """How many calls are being served."""
        return len(self._calls)

    # --- what connections ask ----------------------------------------------------------------------------------------

    def opened(self, connection: ServedConnection) -> None:
        self._connections[connection] = None
        if self._stopping:
            connection.say_goaway()

    def departed(self, connection: ServedConnection, calls: Mapping[int, ServerCall]) -> None:
        """Cancel what a connection that is gone had in work."""
        self._turns.discard(connection)
        self._connections.pop(connection, None)
        for call in tuple(calls.values()):
            self.cancel(call)

    def begin(self, connection: ServedConnection, stream: int, headers: Mapping[str, str]) -> ServerCall:
        """Return the new call of a client. GrpcError if it cannot be served."""
        handler = self._methods.get(headers[":path"])
        if self._stopping:
            raise GrpcError(GrpcStatus.UNAVAILABLE, _STOPS)
        if handler is None:
            raise _unknown(headers[":path"])
        _check_headers(headers)
        if connection.stranger is not None and self._screen is not None:
            self._judge(connection.stranger, connection.address, handler, headers, self._screen)
        deadline, timeout_s = None, None
        if "grpc-timeout" in headers:
            timeout_s = _seconds(headers["grpc-timeout"])
            deadline = self.clock.monotonic() + timeout_s
        call = ServerCall(connection, stream, headers, handler, deadline)
        if timeout_s is not None:
            self._deadlines.begin(call, timeout_s)
        self._calls[call] = connection
        self._unary += handler.unary is not None
        if handler.stream is not None:
            self._put(connection, call)
        return call

    def _judge(
        self, stranger: Stranger, address: str, handler: Method, headers: Mapping[str, str], screen: Screen
    ) -> None:
        try:
            is_known = screen(headers, address)
        except RequestRefused as fault:
            if handler.refused is None:
                raise GrpcError(GrpcStatus.UNAUTHENTICATED, str(fault)) from None
            raise StrangerRefused(handler.refused(str(fault))) from None
        if is_known is not None:
            stranger.note_passage(is_known)

    def has_news(self, connection: ServedConnection, call: ServerCall) -> None:
        """Serve, when it is its turn, a unary call whose request is whole, or what a listener is to hear."""
        self._put(connection, call)

    def flush_soon(self, connection: ServedConnection) -> None:
        self._turns.flush_soon(connection)

    def rest_soon(self) -> None:
        """Look for sessions that nobody uses in a while: one has just been used."""
        if self._resting is None and self._rest is not None and not self._stopping:
            self._resting = self.clock.call_later(_REST_S, self._rest_unused)

    def _rest_unused(self) -> None:
        self._resting = None
        left = Rest.ALL if self._rest is None else self._rest()
        if left is not Rest.ALL:
            wait_s = _REST_S if left is Rest.LATER else _NEXT_S
            self._resting = self.clock.call_later(wait_s, self._rest_unused)

    def suspend(self, connection: ServedConnection) -> None:
        self._turns.suspend(connection)

    def resume(self, connection: ServedConnection) -> None:
        self._turns.resume(connection)

    def cancel(self, call: ServerCall) -> None:
        """End the work on a call that nobody waits for."""
        if not call.is_over:
            self._finish(call)
            if call.task is not None:
                call.task.cancel()

    # --- service -----------------------------------------------------------------------------------------------------

    def _put(self, connection: ServedConnection, call: ServerCall) -> None:
        if self._turns.waiting(call.handler.lane) >= self.limits.queued_requests:
            limit = self.limits.queued_requests
            self.warn.warning("call refused", peer=connection.address, limit="queued_requests", value=limit)
            self._end(call, GrpcStatus.RESOURCE_EXHAUSTED, f"{limit} calls wait, which is the limit: try again later")
            return
        self._turns.put(call.handler.lane, connection, call)

    def serve_arrived(self) -> None:
        """Serve a turn of what has just come, unless others wait for one already."""
        self._turns.begin()

    def _serve(self, connection: ServedConnection, call: ServerCall) -> None:
        if call.is_over:
            return
        handler = call.handler
        try:
            if handler.unary is not None:
                answer = handler.unary(call, call.the_message())
                if isinstance(answer, bytes):
                    self._answer(connection, call, answer)
                    return
                served: Awaitable[object] = answer
                work = self._serve_later(connection, call, answer)
            elif handler.listener is not None:
                if call.task is not None:
                    return  # it hears this when it is done with what came before
                served = hearing = self._pass_on(call, handler.listener)
                work = self._serve_stream(call, hearing)
            else:
                assert handler.stream is not None
                served = going_on = handler.stream(call)
                work = self._serve_stream(call, going_on)
        except Exception as fault:
            self._failed(call, fault)
            return
        call.task = asyncio.get_running_loop().create_task(work)
        if isinstance(
            served, Coroutine
        ):  # one that is cancelled before its first step would say that nobody awaited it
            call.task.add_done_callback(lambda _: served.close())

    async def _serve_later(self, connection: ServedConnection, call: ServerCall, answer: Awaitable[bytes]) -> None:
        try:
            message = await answer
        except asyncio.CancelledError:
            self._cancelled(call)
            raise
        except Exception as fault:
            self._failed(call, fault)
        else:
            self._answer(connection, call, message)

    async def _serve_stream(self, call: ServerCall, work: Awaitable[None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self._cancelled(call)
            raise
        except Exception as fault:
            self._failed(call, fault)
        else:
            if call.handler.listener is None or call.is_half_closed:
                self._end(call, GrpcStatus.OK, "")
            call.task = None

    async def _pass_on(self, call: ServerCall, listener: CallListener) -> None:
        while call.has_message:
            await listener.came(call, call.next_message())

    def _answer(self, connection: ServedConnection, call: ServerCall, message: bytes) -> None:
        if not call.is_over:
            connection.answer(call, message)
            self._finish(call)

    def _failed(self, call: ServerCall, fault: Exception) -> None:
        if isinstance(fault, GrpcError):
            self._end(call, fault.status, fault.text)
        elif isinstance(fault, MemoryError):
            self._end(call, GrpcStatus.RESOURCE_EXHAUSTED, "the server has no memory for this call: try again later")
        else:
            log.exception("call failed", method=call.method, peer=call.remote)
            self._end(call, GrpcStatus.INTERNAL, "internal error, see the server's log")

    def _cancelled(self, call: ServerCall) -> None:
        """End a call whose handler was cancelled by somebody else than its client."""
        self._end(call, GrpcStatus.CANCELLED, "cancelled by the server")

    def _expired(self, call: ServerCall) -> None:
        self._end(call, GrpcStatus.DEADLINE_EXCEEDED, "the deadline of this call has passed")
        if call.task is not None:
            call.task.cancel()

    def _end(self, call: ServerCall, status: int, text: str) -> None:
        connection = self._calls.get(call)
        if connection is not None and not call.is_over:
            connection.end(call, status, text)
            self._finish(call)

    def refuse(self, call: ServerCall, refusal: GrpcError) -> None:
        """End a call because of what its client sent."""
        self._end(call, refusal.status, refusal.text)
        if call.task is not None:
            call.task.cancel()

    def _finish(self, call: ServerCall) -> None:
        call.is_over = True
        self._deadlines.end(call)
        if self._calls.pop(call, None) is not None:
            self._unary -= call.handler.unary is not None
            if call.handler.listener is not None:
                self._report_end(call, call.handler.listener)
            self._check_quiet()

    def _report_end(self, call: ServerCall, listener: CallListener) -> None:
        try:
            listener.ended(call)
        except Exception:
            log.exception("the end of a call could not be told", method=call.method, peer=call.remote)

    # --- the end -----------------------------------------------------------------------------------------------------

    def refuse_new(self) -> None:
        """Take no new calls: every client is told to go elsewhere."""
        self._stopping = True
        if self._resting is not None:
            self._resting.cancel()
        for connection in tuple(self._connections):
            connection.say_goaway()

    async def until_quiet(self) -> None:
        """Wait until all unary calls are finished. Streams are long: `end_streams` ends them."""
        if self._unary:
            self._quiet = asyncio.get_running_loop().create_future()
            await self._quiet
        self._turns.flush()

    async def end_calls(self) -> None:
        """End all that is left with UNAVAILABLE, which makes clients turn to another server."""
        tasks = [call.task for call in self._calls if call.task is not None]
        for call in tuple(self._calls):
            self._end(call, GrpcStatus.UNAVAILABLE, _STOPS)
            if call.task is not None:
                call.task.cancel()
        self._deadlines.stop()
        self._turns.flush()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check_quiet(self) -> None:
        if self._quiet is not None and not self._quiet.done() and not self._unary:
            self._quiet.set_result(None)


def _unknown(path: str) -> GrpcError:
    """Return Java's words for a method that is not served."""
    name = path.removeprefix("/")
    text = f"Method {name} is unimplemented" if path in _KNOWN else f"Method not found: {name}"
    return GrpcError(GrpcStatus.UNIMPLEMENTED, text)


def _check_headers(headers: Mapping[str, str]) -> None:
    if headers[":method"] != "POST":
        raise GrpcError(GrpcStatus.INTERNAL, f"Method '{headers[':method']}' is not supported")
    if not headers.get("content-type", "").startswith("application/grpc"):
        raise GrpcError(GrpcStatus.INTERNAL, f"Content-Type '{headers.get('content-type', '')}' is not supported")
    encoding = headers.get("grpc-encoding", "identity")
    if encoding not in ("identity", "gzip"):
        raise GrpcError(GrpcStatus.UNIMPLEMENTED, f"Can't find decompressor for {encoding}")


def _seconds(text: str) -> float:
    try:
        return parse_timeout(text)
    except ValueError as fault:
        raise GrpcError(GrpcStatus.INTERNAL, str(fault)) from None
