"""Every request code times every kind of caller, on each kind of server: only what may pass passes.

The rows are those of `protocol/requests.py`, so a new one is in the matrix the moment it exists.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.directory import Directory
from pyromq.ambient import SystemClock, seeded_random
from pyromq.config import Loaded
from pyromq.controller.config import ControllerConfig
from pyromq.controller.server import Controller
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.access import NameIn
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS
from pyromq.testing.coordination import SimulatedCoordination
from pyromq.transport.client import RemotingClient
from tests.access.matrix import (
    DISABLED,
    GUARDED,
    NORMAL,
    ON,
    SECRET,
    SUPER,
    allow,
    is_refused,
    make_users,
    request_of,
    signed,
)
from tests.broker.running import running_broker

Ask = Callable[[Command], Awaitable[Command]]
ETCD: dict[str, Any] = {"etcd_endpoints": ("http://unused:2379",)}


@pytest.fixture(params=["broker", "name server", "controller"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Ask, Directory]]:
    clock = SystemClock()
    if request.param == "broker":
        async with running_broker(tmp_path, **ON) as running:
            directory = running.broker.base.access.table.directory
            make_users(directory)
            yield lambda command: running.client.call(running.address, command, 20), directory
        return
    serving: NameServer | Controller = NameServer(_namesrv(tmp_path), clock=clock, rng=random.Random(1))
    if request.param == "controller":
        store = SimulatedCoordination(clock, seeded_random(1)).member("n0")
        serving = Controller(_controller(tmp_path), store, clock=clock, rng=random.Random(1))
    address = await serving.listen()
    make_users(serving.access.table.directory)
    async with RemotingClient(clock=clock, rng=random.Random(2)) as client:
        yield lambda command: client.call(address, command, 20), serving.access.table.directory
    await serving.stop()


def _namesrv(folder: Path) -> Loaded[NamesrvConfig]:
    return Loaded(NamesrvConfig(kv_config_path=folder / "kv.json", listen_port=0, tls_test_mode_enable=False, **ON))


def _controller(folder: Path) -> Loaded[ControllerConfig]:
    return Loaded(
        ControllerConfig(
            **ETCD,
            controller_store_path=folder,
            listen_port=0,
            tls_test_mode_enable=False,
            **ON,
        )
    )


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
