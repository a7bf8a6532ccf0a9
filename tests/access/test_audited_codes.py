"""Each administrative request is a line of the audit log, on each kind of server, and so is what comes from elsewhere.

The rows are those of `protocol/requests.py`, so a new one is looked at the moment it exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.access.directory import Directory
from pyromq.ambient import SystemClock
from pyromq.audit.opening import audit_log
from pyromq.audit.settings import AuditSettings
from pyromq.audit.verify import entries
from pyromq.protocol.access import NameIn
from pyromq.protocol.requests import ROWS
from pyromq.protocol.row import RequestClass
from pyromq.store.message_store import run_at_once
from tests.access.each_server import SERVERS, Ask, serving
from tests.access.matrix import NORMAL, SUPER, allow, is_refused, request_of, signed

ADMINISTRATION = [row for row in ROWS.values() if row.lane is RequestClass.ADMIN]


class Audited(NamedTuple):
    """A server, and its audit log while it runs."""

    ask: Ask
    directory: Directory
    folder: Path
    stack: AsyncExitStack

    async def written(self) -> list[dict[str, Any]]:
        """Stop it; return all lines."""
        await self.stack.aclose()
        return list(entries(self.folder))


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Audited]:
    async with AsyncExitStack() as stack:
        log = audit_log(request.param, AuditSettings(), tmp_path / "audit", SystemClock(), run_at_once)
        audit = await stack.enter_async_context(log)
        ask, directory = await stack.enter_async_context(serving(request.param, tmp_path / "own", audit))
        yield Audited(ask, directory, tmp_path / "audit", stack)


async def test_each_administrative_request_is_a_line(server: Audited) -> None:
    """Whatever comes of it: served, refused by its handler, or none of this server's."""
    outcomes: dict[str, int] = {}
    for row in ADMINISTRATION:
        answer = await server.ask(signed(request_of(row), SUPER))
        outcomes[row.name] = answer.code
    lines = {one["call"]: one for one in await server.written() if one["kind"] == "call"}
    assert [name for name in outcomes if name not in lines] == []
    for row in ADMINISTRATION:
        line = lines[row.name]
        assert (line["user"], line["code"], line["outcome"]) == (SUPER, row.code, outcomes[row.name]), row.name
        assert line["from"].startswith("127.0.0.1:")


async def test_who_may_not_is_a_line_too(server: Audited) -> None:
    judged = [row for row in ADMINISTRATION if any(need.name_in is not NameIn.MESSAGE for need in row.needs)]
    for row in judged:
        allow(server.directory, ())
        assert is_refused(await server.ask(signed(request_of(row), NORMAL))), row.name
    refused = {one["call"] for one in await server.written() if one["kind"] == "refusal" and one["user"] == NORMAL}
    assert [row.name for row in judged if row.name not in refused] == []
