"""One way to ask: a broker by its address, the first name server that answers, or all of them.

    answer = await calls.ask(address, RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic="T", queue_id=0))
    answer.header.offset

The row says what the request and its answer carry, so header and body are typed both ways, and an answer is decoded
when its `header` or `body` is read. `code` tells which of the expected codes came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from ..client.connect.answers import Answer
from ..client.connect.session import Session
from ..client.errors import refused
from ..model.codes import ResponseCode
from ..protocol.bodies.body import decode_body
from ..protocol.command import Command
from ..protocol.headers.header import Header
from ..protocol.json import ANSWER_LIMITS
from ..protocol.row import A, AnyRow, B, H, R, Row

T = TypeVar("T")

_OK = (ResponseCode.SUCCESS,)


class Calls:
    """Event loop only. The session need not be started: nothing here wants heartbeats."""

    def __init__(self, session: Session, *, timeout_s: float | None = None) -> None:
        self.session = session
        self.timeout_s = timeout_s

    async def ask(
        self,
        address: str,
        row: Row[H, B, A, R],
        header: H | None = None,
        body: B | None = None,
        *,
        expected: Iterable[int] = _OK,
    ) -> Answer[A, R]:
        """Return what the broker or name server at this address answers. Unreachable, TimedOut or Refused.

        A body that is empty counts as an empty object.
        """
        known = (*expected, ResponseCode.NO_PERMISSION)
        answer = await self.session.ask(address, row, header, body, timeout_s=self.timeout_s, expected=known)
        if answer.code not in known[:-1]:  # without the usual hint, which is about sending and pulling
            raise refused(answer.code, answer.remark, address, hint="")
        return _for_tools(answer)

    async def ask_name_server(
        self, row: Row[H, Any, A, R], header: H | None = None, *, expected: Iterable[int] = _OK
    ) -> Answer[A, R]:
        """Return the first answer of a name server. NoNameServer or Refused."""
        return _for_tools(await self.session.name_servers.ask(row, header, expected=expected))

    async def ask_each_name_server(
        self, row: Row[H, B, Any, Any], header: H | None = None, body: B | None = None
    ) -> None:
        """Ask all of them, since they know nothing of one another. The first that fails ends it."""
        for address in self.session.config.name_servers:
            await self.ask(address, row, header, body)

    # --- to go, when everybody asks as above ----------------------------------------------------------------------

    async def broker(
        self,
        address: str,
        row: AnyRow,
        header: Header | None = None,
        body: bytes = b"",
        *,
        expected: Iterable[int] = _OK,
    ) -> Command:
        return (await self.ask(address, row, header, body, expected=expected)).command

    async def name_server(
        self,
        row: AnyRow,
        header: Header | None = None,
        *,
        expected: Iterable[int] = _OK,
    ) -> Command:
        return (await self.ask_name_server(row, header, expected=expected)).command

    async def name_servers(self, row: AnyRow, header: Header | None = None, body: bytes = b"") -> None:
        await self.ask_each_name_server(row, header, body)


def _for_tools(answer: Answer[A, R]) -> Answer[A, R]:
    """Return the answer with the limits of what a tool has asked for itself."""
    return Answer(answer.row, answer.command, answer.address, ANSWER_LIMITS, b"{}")


def read(kind: type[T], answer: Command) -> T:
    """The body of an answer; one that is empty is an empty object."""
    return decode_body(kind, answer.body or b"{}", ANSWER_LIMITS)


def read_plain(answer: Command) -> Any:
    """The body of an answer of our own kind, which nobody else has to read."""
    return msgspec.json.decode(answer.body or b"{}")
