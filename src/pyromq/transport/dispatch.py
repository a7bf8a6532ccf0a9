"""Request code to handler, in one place: authorise, call, and turn what was raised into a response code.

A handler gets a `Request` and returns a `Reply`; it raises `RequestRefused` for what it will not do. Nothing else in
the code base makes a response code out of an exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from .. import logs
from ..errors import ProtocolError, RequestRefused
from ..model.client_info import Language, Version
from ..model.codes import RequestCode, ResponseCode
from ..protocol.command import RESPONSE_FLAG, Command
from ..protocol.headers.header import Header
from .peer import Peer

log = logs.get("pyromq.transport")

H = TypeVar("H", bound=Header)


@dataclass(slots=True)
class Request:
    """A decoded command, who sent it, and when it came (monotonic): what waited too long need not be served."""

    command: Command
    peer: Peer
    arrived: float = 0.0

    @property
    def body(self) -> bytes:
        return bytes(self.command.body)

    def header(self, kind: type[H]) -> H:
        """The typed header. RequestRefused names the field that is missing or malformed."""
        return kind.from_fields(self.command.fields)


@dataclass(slots=True)
class Reply:
    """What a handler answers. `header` and `fields` together become the response's fields."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: Header | None = None
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""

    def to_command(self, request: Command) -> Command:
        """Answered in the encoding that the request came in, with its opaque."""
        fields = self.fields if self.header is None else self.header.to_fields() | self.fields
        return Command(
            code=self.code,
            opaque=request.opaque,
            flag=RESPONSE_FLAG,
            language=Language.PYTHON,
            version=Version.CURRENT,
            remark=self.remark,
            fields=fields,
            body=self.body,
            encoding=request.encoding,
        )


# What a handler gives back: the reply at once (no task is needed then), later, or None: it answers by
# `peer.send` when it can (long polls), or never.
Answer = Reply | None | Awaitable[Reply | None]
Handler = Callable[[Request], Answer]
Authorise = Callable[[Request], None]


def allow_all(_: Request) -> None:
    """Stands where users and permissions will: raises RequestRefused(NO_PERMISSION) for what is not allowed."""


class Dispatcher:
    """The whole request surface of one server. Itself a handler; `await_answer` takes what it gives back to its end."""

    def __init__(self, handlers: Mapping[int, Handler], authorise: Authorise = allow_all) -> None:
        self._handlers = dict(handlers)
        self._authorise = authorise

    @property
    def allows_all(self) -> bool:
        """Nobody has to show who he is: a kernel may take requests without asking."""
        return self._authorise is allow_all

    def __call__(self, request: Request) -> Answer:
        try:
            handler = self._handlers.get(request.command.code)
            if handler is None:
                return unsupported(request)
            self._authorise(request)
            answer = handler(request)
        except Exception as fault:
            return failed(request, fault)
        return answer if answer is None or isinstance(answer, Reply) else _later(request, answer)


async def await_answer(answer: Answer) -> Reply | None:
    """The reply, now or when it is there."""
    return answer if answer is None or isinstance(answer, Reply) else await answer


async def _later(request: Request, answer: Awaitable[Reply | None]) -> Reply | None:
    try:
        return await answer
    except Exception as fault:
        return failed(request, fault)


def failed(request: Request, fault: Exception) -> Reply:
    """An exception as a reply. A ProtocolError goes on: transport closes the connection."""
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
_CUT_OFF = {code & 0xFFFF: code for code in RequestCode if code > 0x7FFF}


def unsupported(request: Request) -> Reply:
    """Java's words for a code without a handler, and a hint where the binary header cut the code off."""
    code = request.command.code
    remark = f" request type {code} not supported"
    meant = _CUT_OFF.get(code)
    if meant is not None:
        remark += f"; if {meant} ({meant.name}) was meant, it needs the JSON header (binary has 16 bits)"
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
