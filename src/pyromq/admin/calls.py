"""One way to ask: a broker by its address, the first name server that answers, or all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from ..client.connect.session import Session
from ..client.errors import refused
from ..model.codes import ResponseCode
from ..protocol.bodies.body import decode_body
from ..protocol.command import Command
from ..protocol.headers.header import Header
from ..protocol.json import ANSWER_LIMITS

T = TypeVar("T")


class Calls:
    """Event loop only. The session need not be started: nothing here wants heartbeats."""

    def __init__(self, session: Session, *, timeout_s: float | None = None) -> None:
        self.session = session
        self.timeout_s = timeout_s

    async def broker(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        expected: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """Unreachable, TimedOut or Refused."""
        known = (*expected, ResponseCode.NO_PERMISSION)
        answer = await self.session.call(address, code, header, body, timeout_s=self.timeout_s, expected=known)
        if answer.code not in known[:-1]:  # without the usual hint, which is about sending and pulling
            raise refused(answer.code, answer.remark, address, hint="")
        return answer

    async def name_server(
        self,
        code: int,
        header: Header | None = None,
        *,
        expected: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """NoNameServer or Refused."""
        address, answer = await self.session.name_servers.ask(code, header)
        if answer.code not in expected:
            raise refused(answer.code, answer.remark, address)
        return answer

    async def name_servers(self, code: int, header: Header | None = None, body: bytes = b"") -> None:
        """Told to each of them, since they know nothing of one another. The first that fails ends it."""
        for address in self.session.config.name_servers:
            await self.broker(address, code, header, body)


def read(kind: type[T], answer: Command) -> T:
    """The body of an answer; one that is empty is an empty object."""
    return decode_body(kind, answer.body or b"{}", ANSWER_LIMITS)


def read_plain(answer: Command) -> Any:
    """The body of an answer of our own kind, which nobody else has to read."""
    return msgspec.json.decode(answer.body or b"{}")
