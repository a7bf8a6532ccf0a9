"""Request code to handler, in one place: authorise, call, encode the answer by the request's row.

A handler gets a `Request`, which decodes header and body by the row when asked for them. It returns a `Reply` with a
typed header and body, and raises `RequestRefused` for what it will not do. Here alone what a handler raises becomes a
response code; the store's errors of a put are answered by broker/intake and broker/send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .. import logs
from ..access.rights import EVERYTHING, NOBODY, Principal, Rights
from ..errors import ProtocolError, RequestRefused
from ..model.client_info import Language, Version
from ..model.codes import ResponseCode
from ..protocol.command import RESPONSE_FLAG, Command
from ..protocol.headers.header import Header
from ..protocol.requests import ROWS
from ..protocol.row import Row, ServedBy
from .peer import Peer
from .turns.answer_times import AnswerTimes
from .turns.slices import Slices

log = logs.get("pyromq.transport")

H = TypeVar("H", bound=Header | None, covariant=True)
B = TypeVar("B", covariant=True)
Of = TypeVar("Of", bound=Header | None)
With = TypeVar("With")


_TAKES = {code: row.takes for code, row in ROWS.items()}  # every request asks


@dataclass(slots=True)
class RequestOf(Generic[H, B]):
    """A command, who sent it, and when it came (monotonic): what waited too long need not be served.

    Header and body are decoded by the row of the request's code when they are asked for, so that a handler may first
    refuse what it need not read. `principal` sent it, and `rights` are what he may do (`access/rights.py`).
    """

    command: Command
    peer: Peer
    arrived: float = 0.0
    principal: Principal = NOBODY
    rights: Rights = EVERYTHING
    on_answer: Callable[[Reply], None] | None = None  # hears of an answer that a handler sends by itself, later
    times: AnswerTimes | None = None  # where the time that it took is noted

    def answered(self, reply: Reply) -> None:
        """Say that this is sent as the answer, by the handler itself."""
        if self.on_answer is not None:
            self.on_answer(reply)

    @property
    def header(self) -> H:
        """Return the typed header, decoded anew each time. RequestRefused names the field that is missing or wrong."""
        command = self.command
        found: H = _TAKES[command.code].read_header(command.fields)
        return found

    @property
    def body(self) -> B:
        """Return the typed body, decoded anew each time. RequestRefused says what is wrong with it."""
        found: B = _TAKES[self.command.code].read_body(self.command.body)
        return found

    @property
    def raw_body(self) -> bytes:
        return bytes(self.command.body)

    def note_answer(self, response: int, *, held: bool = False) -> None:
        """Note how long it took until now, where it is answered. `held`: it waited for a message."""
        if self.times is not None:
            self.times.note(self.command.code, response, self.arrived, held)


Request = RequestOf[Any, Any]


@dataclass(slots=True)
class Reply:
    """What a handler answers. `header` and `fields` together become the response's fields.

    `body` is of the type that the request's row names, or bytes that are encoded already. `noted` goes into the audit
    log, not to the peer: of a change `before` and `after`, without secrets.
    """

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: Header | None = None
    fields: dict[str, str] = field(default_factory=dict)
    body: Any = b""
    noted: dict[str, Any] | None = None

    @property
    def is_encoded(self) -> bool:
        return isinstance(self.body, bytes | memoryview)

    def to_command(self, request: Command) -> Command:
        """Return the answer in the encoding that the request came in, with its opaque."""
        fields = self.fields
        if self.header is not None:
            fields = self.header.to_fields() | fields if fields else self.header.to_fields()
        body = self.body
        if type(body) is not bytes and not self.is_encoded:
            body = ROWS[request.code].gives.write_body(body)
        return Command(
            code=self.code,
            opaque=request.opaque,
            flag=RESPONSE_FLAG,
            language=Language.PYTHON,
            version=Version.CURRENT,
            remark=self.remark,
            fields=fields,
            body=body,
            encoding=request.encoding,
        )


# What a handler gives back: the reply at once (no task is needed then), later, or None: it answers by
# `peer.send` when it can (long polls), or never.
Answer = Reply | None | Awaitable[Reply | None]
Handler = Callable[[Request], Answer]
Authorise = Callable[[Request], None]


def bind(row: Row[Of, With, Any, Any], handler: Callable[[RequestOf[Of, With]], Answer]) -> tuple[int, Handler]:
    """Return the pair for a server's surface. A handler of other types than the row's fails the type check."""
    return row.code, handler


def bound(pairs: Iterable[tuple[int, Handler]], *servers: ServedBy) -> dict[int, Handler]:
    """Return handlers by code. ValueError unless they are exactly those of the rows that these servers serve."""
    handlers = dict(pairs)
    wrong = handlers.keys() ^ {code for code, row in ROWS.items() if row.by in servers}
    if wrong:
        raise ValueError(f"handlers and rows differ: {', '.join(ROWS[code].name for code in sorted(wrong))}")
    return handlers


def replying(answer: Callable[[Any], Awaitable[Any]]) -> Handler:
    """Return a handler that answers with the body, or nothing, that `answer` gives for a request."""

    async def reply(request: Request) -> Reply:
        body = await answer(request)
        return Reply() if body is None else Reply(body=body)

    return reply


def allow_all(_: Request) -> None:
    """Allow everything. Another `authorise`, such as `access.gate.AccessGate`, sets who sent a request and what he may
    do, and raises RequestRefused(NO_PERMISSION) for what is not allowed."""


@dataclass(slots=True, eq=False, repr=False)
class Dispatcher:
    """The whole request surface of one server. Itself a handler; `await_answer` takes what it gives back to its end."""

    handlers: Mapping[int, Handler]
    authorise: Authorise = allow_all
    slices: Slices | None = None  # answers that come later are encoded in slices of the event loop's time

    def __call__(self, request: Request) -> Answer:
        try:
            self.authorise(request)  # first: strangers are not even told what there is
            handler = self.handlers.get(request.command.code)
            if handler is None:
                return unsupported(request)
            answer = handler(request)
            if isinstance(answer, Reply):
                self._screen(request, answer)
        except Exception as fault:
            return failed(request, fault)
        return answer if answer is None or isinstance(answer, Reply) else self._later(request, answer)

    def _screen(self, request: Request, reply: Reply) -> None:
        """Leave out of a list what the one who asks may not see."""
        if request.rights is not EVERYTHING and reply.code == ResponseCode.SUCCESS:
            reply.body = request.rights.shown(request.command.code, reply.body)

    async def _later(self, request: Request, answer: Awaitable[Reply | None]) -> Reply | None:
        try:
            reply = await answer
            if reply is not None:
                self._screen(request, reply)
            if self.slices is not None and reply is not None and not reply.is_encoded:
                reply.body = await self.slices.encoded(reply.body, ROWS[request.command.code].gives.dialect)
        except Exception as fault:
            return failed(request, fault)
        return reply


async def await_answer(answer: Answer) -> Reply | None:
    return answer if answer is None or isinstance(answer, Reply) else await answer


def failed(request: Request, fault: Exception) -> Reply:
    """Return the reply for an exception. Raises a ProtocolError again: transport then closes the connection."""
    if isinstance(fault, RequestRefused):
        return Reply(fault.code, remark=str(fault), fields=fault.fields)
    if isinstance(fault, ProtocolError):
        raise fault
    if isinstance(fault, MemoryError):
        log.error("request refused: no memory for it", code=request.command.code, peer=request.peer.address)
        return Reply(
            ResponseCode.SYSTEM_BUSY,
            remark="[OVERLOAD] the server has no memory for this request: ask for less, or try again later",
        )
    log.exception("request failed", code=request.command.code, peer=request.peer.address)
    return Reply(ResponseCode.SYSTEM_ERROR, remark="internal error, see the server's log")


# What the 16 bits of the binary header leave of the longer codes.
_CUT_OFF = {code & 0xFFFF: row for code, row in ROWS.items() if code > 0x7FFF}


def unsupported(request: Request) -> Reply:
    """Return Java's reply for a code without a handler, with a hint where the binary header cut the code off."""
    code = request.command.code
    remark = f" request type {code} not supported"
    meant = _CUT_OFF.get(code)
    if meant is not None:
        remark += f"; if {meant} ({meant.name}) was meant, it needs the JSON header (binary has 16 bits)"
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
