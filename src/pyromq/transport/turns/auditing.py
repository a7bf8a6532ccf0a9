"""Writes administrative calls into the audit log: who asked for what, and what came of it.

Stands around the handlers of a server, as `LoopHolds` does. A call is administrative if its row says so (the lane
ADMIN); all others pass as before, and cost nothing. Of the header the fields that the row's type knows are written, so
no signature and no key; of the body nothing. A handler says by `Reply.noted` what it changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from ...audit.log import AuditLog
from ...errors import ProtocolError, RequestRefused
from ...model.codes import ResponseCode
from ...protocol.requests import ROWS
from ...protocol.row import AnyRow, RequestClass
from ..dispatch import Answer, Handler, Reply, Request, unsupported

Changed = Callable[[], dict[str, Any]] | None
Describe = Callable[[Request], Changed]
_HIDDEN = ("secret", "passw", "signature", "accesskey", "token", "value", "propert", "filterdata")


def unchanged(_: Request) -> Changed:
    """Describe no change: handlers say themselves what they changed."""
    return None


class Auditing:
    """Event loop only. `describe` is asked before a request is served; what it returns tells then what changed."""

    def __init__(self, audit: AuditLog, describe: Describe = unchanged) -> None:
        self._audit = audit
        self._describe = describe

    def around(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return handlers of the same, and of the administration of other servers: who tries that here is noted."""
        elsewhere = {row.code: unsupported for row in ROWS.values() if row.lane is RequestClass.ADMIN}
        return {code: self._audited(code, handler) for code, handler in (elsewhere | {**handlers}).items()}

    def _audited(self, code: int, handler: Handler) -> Handler:
        row = ROWS.get(code)
        if row is None or row.lane is not RequestClass.ADMIN:
            return handler
        changes = not row.only_reads

        def audited(request: Request) -> Answer:
            changed = self._describe(request) if changes else None
            try:
                answer = handler(request)
            except Exception as fault:
                self._failed(row, request, fault)
                raise
            if answer is not None and not isinstance(answer, Reply):
                return self._later(row, request, answer, changed)
            self._note(row, request, answer, changed)
            return self._once_written(answer) if changes and answer is not None else answer

        return audited

    async def _later(
        self, row: AnyRow, request: Request, answer: Awaitable[Reply | None], changed: Changed
    ) -> Reply | None:
        try:
            reply = await answer
        except Exception as fault:
            self._failed(row, request, fault)
            raise
        self._note(row, request, reply, changed)
        return reply if row.only_reads else await self._once_written(reply)

    async def _once_written(self, reply: Reply | None) -> Reply | None:
        """Return the answer of a change when its line is on the medium: a kill cannot take what was answered."""
        await self._audit.written()
        return reply

    def _failed(self, row: AnyRow, request: Request, fault: Exception) -> None:
        if isinstance(fault, RequestRefused):
            self._write(row, request, fault.code, {"why": str(fault)})
        else:
            kind = "the request cannot be read" if isinstance(fault, ProtocolError) else type(fault).__name__
            self._write(row, request, ResponseCode.SYSTEM_ERROR, {"why": kind})

    def _note(self, row: AnyRow, request: Request, reply: Reply | None, changed: Changed) -> None:
        if reply is None:
            self._write(row, request, ResponseCode.SUCCESS, {})
            return
        said = {"why": reply.remark} if reply.code != ResponseCode.SUCCESS and reply.remark else {}
        self._write(row, request, reply.code, said | (reply.noted or ({} if changed is None else changed())))

    def _write(self, row: AnyRow, request: Request, outcome: int, more: dict[str, Any]) -> None:
        user, address = request.principal.name, request.peer.address
        fields = {
            "user": user,
            "from": address,
            "call": row.name,
            "code": row.code,
            "with": header_fields(row, request),
            "outcome": outcome,
            **more,
        }
        if row.only_reads:
            host = address.rpartition(":")[0]  # what changes nothing is written once in a while
            self._audit.note_seldom((row.name, user, host, str(outcome + 0), str(fields["with"])), "call", **fields)
        else:
            self._audit.note("call", **fields)


def header_fields(row: AnyRow, request: Request) -> dict[str, str]:
    """Return the fields that the header's type has, as they came, less those that may hold a secret or a message."""
    header = row.takes.header
    if header is None:
        return {}
    known = {one.encode_name for one in msgspec.structs.fields(header)}
    fields = request.command.fields
    return {name: fields[name] for name in fields if name in known and not _hides(name)}


def _hides(name: str) -> bool:
    lower = name.lower()
    return any(part in lower for part in _HIDDEN)
