"""Serves the requests of all connections of one server or client: queue, turn, dispatch, answer, flush.

A turn of the loop takes a bounded share of each class of requests (`turns/turns.py`). A handler that answers at once
costs no task. Nothing here knows sockets; `server.py` and `client.py` each own one and bring the connections.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from .. import logs
from ..ambient import Clock
from ..errors import ProtocolError
from ..kernel.seam import Feed, PendingReply, feed_nothing
from ..model.client_info import Version
from ..model.codes import ResponseCode
from ..protocol.command import Command
from ..protocol.row import RequestClass
from .connection.buffered_bytes import BufferedBytes
from .connection.connection import Connection
from .connection.pending_replies import FrameWriter, Passage, PendingReplies, ReplyTimeout
from .connection.strangers import Stranger
from .dispatch import Answer, Handler, Reply, Request, RequestOf, await_answer, failed
from .limits import Limits
from .turns.answer_times import AnswerTimes
from .turns.fair_queue import PROPERTIES_FIELD, class_of
from .turns.long_turns import LongTurns
from .turns.turns import Turns

log = logs.get("pyromq.transport")

_RECEIVE_BYTES = 256 << 10
_TURN_BYTES = 64 << 10  # some hundred small messages: while one connection has its turn, the others wait


class Service:
    """Implements `connection.Owner`. Event loop only."""

    def __init__(
        self,
        dispatch: Handler,
        *,
        clock: Clock,
        limits: Limits,
        feed: Feed = feed_nothing,
        opened: Callable[[Connection], bool],
        closed: Callable[[Connection], None],
        buffered: BufferedBytes | None = None,
        reply_timeout: ReplyTimeout | None = None,
        passage: Passage | None = None,
    ) -> None:
        """`buffered`: what this one and others of the daemon keep for their peers together."""
        self.clock = clock
        self.limits = limits
        self.warn = logs.Limited(log, clock)
        self.feed = feed
        self.buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self.turn_buffer = self.buffer[:_TURN_BYTES]
        self.long_turns = LongTurns(clock)
        self.opened = opened
        self._closed = closed
        self._dispatch = dispatch
        self._turns: Turns[Connection, Request] = Turns(limits.shares, self._serve)
        self._replies = PendingReplies(clock, self._check_quiet, reply_timeout, passage)
        self.times = AnswerTimes(clock.monotonic)
        self.refused: Counter[tuple[RequestClass, str]] = Counter()  # before a handler saw them: class, limit
        self._departed: set[Connection] = set()  # lost, with requests that are not finished
        self.buffered = BufferedBytes(limits.held_bytes) if buffered is None else buffered
        self.buffered_bytes = 0  # kept for our own peers: unfinished frames and requests, answers that they do not read
        self._tasks: set[asyncio.Task[None]] = set()
        self._unfinished = 0
        self._stopping = False
        self._quiet: asyncio.Future[None] | None = None

    # --- what connections ask ----------------------------------------------------------------------------------------

    def closed(self, connection: Connection) -> None:
        """Serve on what a peer sent before it left: the last thing of many clients is a one-way request. What one
        had waiting that we cut off is dropped. The end is reported when the last of its requests is finished."""
        self._departed.add(connection)
        if connection.was_cut:
            for request in self._turns.discard(connection):
                self._finish(connection, request.command)
        else:
            self._turns.resume(connection)
        self._check_departed(connection)

    def submit(self, connection: Connection, requests: Sequence[Command]) -> None:
        self._unfinished += len(requests)
        arrived = self.clock.monotonic()
        for request in requests:
            kind = class_of(request.code)
            if self._stopping:
                self._answer(connection, request, _go_away(request))
            elif self._turns.waiting(kind) >= self.limits.queued_requests:
                self._answer(connection, request, self._overload(connection, kind))
            elif kind is RequestClass.SEND and (size := _property_bytes(request)) > self.limits.property_bytes:
                self._answer(connection, request, self._long_properties(connection, size))
            else:
                self._turns.put(kind, connection, RequestOf(request, connection, arrived, times=self.times))
        self._turns.begin_soon()

    def reply_when_readable(self, connection: FrameWriter, waiting: Sequence[PendingReply]) -> None:
        for position, replies in waiting:
            self._replies.add(position, replies, connection)

    def flush_soon(self, connection: Connection) -> None:
        self._turns.flush_soon(connection)

    def suspend(self, connection: Connection) -> None:
        self._turns.suspend(connection)

    def resume(self, connection: Connection) -> None:
        self._turns.resume(connection)

    def waiting(self, kind: RequestClass) -> int:
        """Return how many requests of a class wait to be served."""
        return self._turns.waiting(kind)

    def account(self, connection: Connection, change: int) -> None:
        self.buffered_bytes += change
        self.buffered.change(connection, change)

    # --- refusals before anything is queued --------------------------------------------------------------------------

    def _overload(self, connection: Connection, kind: RequestClass) -> Reply:
        limit, name = self.limits.queued_requests, kind.name.lower()
        self.refused[kind, "queued_requests"] += 1
        self.warn.warning("request refused", peer=connection.address, limit="queued_requests", value=limit)
        remark = f"[OVERLOAD] {limit} {name} requests wait, which is the limit (queued_requests): try again later"
        return Reply(ResponseCode.SYSTEM_BUSY, remark)

    def _long_properties(self, connection: Connection, size: int) -> Reply:
        limit = self.limits.property_bytes
        self.warn.warning("request refused", peer=connection.address, limit="property_bytes", value=limit)
        remark = f"message properties of {size} bytes, the limit (property_bytes) is {limit}: put data into the body"
        return Reply(ResponseCode.MESSAGE_ILLEGAL, remark)

    # --- service -----------------------------------------------------------------------------------------------------

    def _serve(self, connection: Connection, request: Request) -> None:
        command = request.command
        if connection.was_cut:
            self._finish(connection, command)
            return
        try:
            answer = self._dispatch(request)
        except Exception as fault:
            self._failed(request, connection, fault)
            return
        if connection.stranger is not None and (request.principal.is_let_in or isinstance(answer, Reply | None)):
            _note_stranger(connection.stranger, request, answer)
        if answer is None or isinstance(answer, Reply):
            if answer is not None:
                request.note_answer(answer.code)
            self._answer(connection, command, answer)
            return
        task = asyncio.get_running_loop().create_task(self._serve_later(connection, request, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_later(self, connection: Connection, request: Request, answer: Answer) -> None:
        try:
            reply = await await_answer(answer)
        except Exception as fault:
            self._failed(request, connection, fault)
        except asyncio.CancelledError:
            self._finish(connection, request.command)
            raise
        else:
            if connection.stranger is not None:  # a gateway first had to learn who that is
                _note_stranger(connection.stranger, request, reply)
            if reply is not None:
                request.note_answer(reply.code)
            self._answer(connection, request.command, reply)

    def _failed(self, request: Request, connection: Connection, fault: Exception) -> None:
        """Answer for what a handler without a dispatcher around it raised, or a ProtocolError that came through one."""
        try:
            reply = failed(request, fault)
            request.note_answer(reply.code)
            self._answer(connection, request.command, reply)
        except ProtocolError:
            connection.violation("bad bytes from a peer", fault=str(fault), code=request.command.code)
            self._finish(connection, request.command)

    def _answer(self, connection: Connection, command: Command, reply: Reply | None) -> None:
        """Send the reply, if there is one: a one-way request is never answered, whatever happened."""
        if reply is not None and not command.is_oneway:
            try:
                connection.send(reply.to_command(command))
            except Exception:
                log.exception("answer cannot be encoded", code=command.code, peer=connection.address)
                connection.send(Reply(ResponseCode.SYSTEM_ERROR, remark=_UNENCODABLE).to_command(command))
        self._finish(connection, command)

    def _finish(self, connection: Connection, command: Command) -> None:
        connection.finished(command)
        self._unfinished -= 1
        if not connection.is_open:
            self._check_departed(connection)
        self._check_quiet()

    def _check_departed(self, connection: Connection) -> None:
        if not connection.unfinished and connection in self._departed:
            self._departed.remove(connection)
            try:
                self._closed(connection)
            except Exception:  # not the fault of the request or stream that happened to be the last
                log.exception("a lost connection could not be told", peer=connection.address)

    # --- pending replies and the end ---------------------------------------------------------------------------------

    def release(self, readable: int) -> None:
        """Send the kernel's replies that waited until the log is readable up to here."""
        self._replies.release(readable)
        self._check_quiet()

    def abort_pending_replies(self) -> None:
        """Cut off the connections with replies that wait for the log: it will not become readable any more."""
        self._replies.abort_all("what it waits for will not be stored")
        self._check_quiet()

    @property
    def pending_replies(self) -> int:
        """Return how many answers of the kernel wait for the log, those of a received buffer together."""
        return len(self._replies)

    def refuse_new(self) -> None:
        """Refuse requests from now on, and leave the kernel alone."""
        self._stopping = True
        self.feed = feed_nothing

    async def until_quiet(self) -> None:
        """Wait until all requests are finished and no reply is pending."""
        if self._unfinished or self._replies:
            self._quiet = asyncio.get_running_loop().create_future()
            await self._quiet
        self._turns.flush()

    async def cancel(self) -> None:
        """Give up what is still in progress."""
        self._replies.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check_quiet(self) -> None:
        if self._quiet is not None and not self._quiet.done() and not self._unfinished and not self._replies:
            self._quiet.set_result(None)


_UNENCODABLE = "internal error: the answer cannot be encoded, see the server's log"


def _note_stranger(stranger: Stranger, request: Request, answer: Answer) -> None:
    """Note whether a request has shown who sent it, which holds whatever is answered, or else whether it was served."""
    code = answer.code if isinstance(answer, Reply) else ResponseCode.SUCCESS
    if request.principal.is_let_in or code == ResponseCode.SUCCESS:
        stranger.note_passage(request.principal.is_let_in)
    elif code == ResponseCode.NO_PERMISSION:
        stranger.note_refusal()


def _property_bytes(request: Command) -> int:
    properties = request.fields.get(PROPERTIES_FIELD.get(request.code, ""), "")
    return len(properties) if properties.isascii() else len(properties.encode(errors="surrogatepass"))


def _go_away(request: Command) -> Reply:
    """Send a client elsewhere: newer ones know GO_AWAY, all of them try another broker on SERVICE_NOT_AVAILABLE."""
    knows_go_away = request.version > Version.V5_3_1
    code = ResponseCode.GO_AWAY if knows_go_away else ResponseCode.SERVICE_NOT_AVAILABLE
    return Reply(code, remark="this server is stopping: use another one, or try again later")
