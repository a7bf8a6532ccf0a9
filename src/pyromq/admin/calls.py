"""One way to ask: a broker by its address, the first name server that answers, or all of them.

    answer = await calls.ask(address, RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic="T", queue_id=0))
    answer.header.offset

The row says what the request and its answer carry, so header and body are typed both ways, and an answer is decoded
when its `header` or `body` is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..client.connect.answers import Answer
from ..client.connect.session import Session
from ..client.errors import refused
from ..model.codes import ResponseCode
from ..protocol.headers.admin import ADMIN_ADDRESS
from ..protocol.json import ANSWER_LIMITS
from ..protocol.row import A, B, H, R, Row


@dataclass(slots=True, eq=False, repr=False)
class Calls:
    """Event loop only. The session need not be started: nothing here wants heartbeats."""

    session: Session
    timeout_s: float | None = None
    _apart: dict[str, str] = field(default_factory=dict)  # by address: where administration is served instead

    async def ask(
        self,
        address: str,
        row: Row[H, B, A, R],
        header: H | None = None,
        body: B | None = None,
        *,
        known: Iterable[int] = (),
    ) -> Answer[A, R]:
        """Return what the broker or name server at this address answers: success, or one of the `known` codes.

        Unreachable, TimedOut or Refused. A body that is empty counts as an empty object.
        """
        codes = (ResponseCode.SUCCESS, *known)
        expected = (*codes, ResponseCode.NO_PERMISSION)
        asked = self._apart.get(address, address) if row.is_administration else address
        answer = await self.session.ask(asked, row, header, body, timeout_s=self.timeout_s, expected=expected)
        if asked == address and self._is_apart(answer, address):
            return await self.ask(address, row, header, body, known=known)
        if answer.code not in codes:  # without the usual hint, which is about sending and pulling
            raise refused(answer.code, answer.remark, address, hint="")
        return _for_tools(answer)

    async def ask_name_server(
        self, row: Row[H, Any, A, R], header: H | None = None, *, known: Iterable[int] = ()
    ) -> Answer[A, R]:
        """Return the first answer of a name server. NoNameServer or Refused."""
        codes = (ResponseCode.SUCCESS, *known)
        answer = await self.session.name_servers.ask(row, header, expected=(*codes, ResponseCode.NO_PERMISSION))
        if self._is_apart(answer, answer.address):
            return await self.ask(answer.address, row, header, known=known)
        if answer.code not in codes:
            raise refused(answer.code, answer.remark, answer.address)
        return _for_tools(answer)

    async def ask_each_name_server(self, row: Row[H, Any, Any, Any], header: H) -> None:
        """Ask all name servers, since they know nothing of one another. The first that fails ends it."""
        for address in self.session.config.name_servers:
            await self.ask(address, row, header)

    def _is_apart(self, answer: Answer[Any, Any], address: str) -> bool:
        """Tell whether a server refused what it serves at its `adminListener`, and said where that is: elsewhere."""
        if answer.code != ResponseCode.NO_PERMISSION or not answer.row.is_administration:
            return False
        elsewhere = answer.command.fields.get(ADMIN_ADDRESS, "")
        if elsewhere in ("", address):
            return False
        self._apart[address] = elsewhere
        return True


def _for_tools(answer: Answer[A, R]) -> Answer[A, R]:
    """Return the answer with the wider limits of tools, which asked for it themselves."""
    empty = b"{}" if answer.row.gives.is_json else b""
    return Answer(answer.row, answer.command, answer.address, ANSWER_LIMITS, empty)
