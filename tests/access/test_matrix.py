"""Every request code times every kind of caller, on each kind of server: only what may pass passes.

The rows are those of `protocol/requests.py`, so a new one is in the matrix the moment it exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.access.directory import Directory
from pyromq.protocol.access import NameIn
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS
from tests.access.each_server import SERVERS, Ask, serving
from tests.access.matrix import (
    DISABLED,
    GUARDED,
    NORMAL,
    SECRET,
    SUPER,
    allow,
    is_refused,
    request_of,
    signed,
)


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Ask, Directory]]:
    async with serving(request.param, tmp_path) as found:
        yield found


async def test_strangers_are_refused_whatever_they_ask_for(server: tuple[Ask, Directory]) -> None:
    ask, _ = server
    passed: list[tuple[object, ...]] = []
    for row in [*ROWS.values(), 99_999]:
        command = Command(code=row) if row == 99_999 else request_of(ROWS[row])
        for kind, sent in {
            "nobody": command,
            "wrong secret": signed(_copy(command), SUPER, "guessed"),
            "unknown": signed(_copy(command), "nobody knows", SECRET),
            "disabled": signed(_copy(command), DISABLED),
            "unsigned": Command(code=command.code, fields=command.fields | {"AccessKey": SUPER}, body=command.body),
        }.items():
            if not is_refused(await ask(sent)):
                passed.append((row, kind))
    assert not passed, passed


async def test_a_changed_request_is_refused(server: tuple[Ask, Directory]) -> None:
    ask, _ = server
    for row in ROWS.values():
        command = signed(request_of(row), SUPER)
        command.fields["added"] = "later"
        assert is_refused(await ask(command)), row.name


async def test_who_has_all_rights_but_one_is_refused(server: tuple[Ask, Directory]) -> None:
    ask, directory = server
    passed: list[tuple[object, ...]] = []
    for row in GUARDED:
        for missing in row.needs:
            allow(directory, tuple(need for need in row.needs if need is not missing))
            if not is_refused(await ask(signed(request_of(row), NORMAL))):
                passed.append((row.name, missing))
        allow(directory, row.needs, suffix="-other", cluster="OtherCluster")
        is_listed = all(need.name_in is NameIn.ALL for need in row.needs)
        if not is_listed and not is_refused(await ask(signed(request_of(row), NORMAL))):
            passed.append((row.name, "others' rights"))
    assert not passed, passed


async def test_who_may_and_super_users_pass(server: tuple[Ask, Directory]) -> None:
    ask, directory = server
    refused = []
    for row in ROWS.values():
        allow(directory, row.needs)
        for name in (NORMAL, SUPER):
            answer = await ask(signed(request_of(row), name))
            if is_refused(answer):
                refused.append((row.name, name, answer.remark))
    assert refused == []


def _copy(command: Command) -> Command:
    return Command(code=command.code, fields=dict(command.fields), body=command.body)
