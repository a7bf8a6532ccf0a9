"""Three broker processes and a real etcd: shown by `pyromq cluster status`, switched by `pyromq cluster switch`."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import pyromq
from pyromq.cli.main import cli
from tests.elected.elected_set import NAME, ElectedSet, elected_set
from tests.elected.test_failover import eventually, first_send, has_acked, received, send_until
from tests.interop import wire

RUNTIME = 28


def run(members: ElectedSet, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "-n", members.name_server.address])


def status(members: ElectedSet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(members, "cluster", "status", NAME, "--json").stdout)
    return found


async def is_well(members: ElectedSet) -> bool:
    found = await asyncio.to_thread(status, members)
    return found["inSync"] == [1, 2, 3] and "troubles" not in found


async def is_told(members: ElectedSet) -> bool:
    """Return whether the runtime information of each replica says what its role is and how it goes."""
    bodies = [(await asyncio.to_thread(wire.ask, one.address, RUNTIME)).body for one in members.brokers]
    tables = [wire.json_with_bare_keys(body)["table"] for body in bodies]
    masters = [table for table in tables if table.get("pyromqSlavesInSync") == "2"]
    followers = [table for table in tables if table.get("pyromqTables") == "carried by the log"]
    return len(masters) == 1 and len(followers) == 2


async def switch_under_load(members: ElectedSet) -> None:
    async with pyromq.connect(members.name_server.address) as client, client.producer() as producer:
        await eventually(members.is_whole)
        await first_send(producer)
        await eventually(partial(is_well, members))
        found = await asyncio.to_thread(status, members)
        assert found["mastersAreChosenBy"] == "elected"
        stop, acked = asyncio.Event(), set[bytes]()
        sending = asyncio.create_task(send_until(producer, stop, acked))
        await eventually(partial(has_acked, acked, 20))
        to = next(one["id"] for one in found["replicas"] if one["role"] == "slave")
        done = await asyncio.to_thread(run, members, "cluster", "switch", NAME, "--to", str(to), "--yes", "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["master"] == to
        assert json.loads(done.stdout)["epoch"] > found["epoch"]
        await eventually(partial(has_acked, acked, len(acked) + 20))
        stop.set()
        await sending
        state, _ = await members.known()
        assert state is not None
        assert state.master == to
        assert await received(client, acked) >= acked
        await eventually(members.is_whole)
        await eventually(partial(is_told, members))


def test_a_set_is_shown_and_switched_under_load(tmp_path: Path) -> None:
    with elected_set(tmp_path, {"haTls": "required"}) as members:
        asyncio.run(switch_under_load(members))
        checks = run(members, "doctor", "--json").stdout
        states = {row["check"]: row["state"] for row in map(json.loads, checks.splitlines())}
        assert (states["etcd"], states["in sync"]) == ("good", "good")
