"""Tables are read again while their changes go on coming: each row once more, as it is by then, whatever is killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pyromq.cdc.events import Op
from tests.cdc.mariadb import MariaDb
from tests.cdc.postgres import Postgres
from tests.cdc.world import CaptureWorld, check_once, rows_of

Server = MariaDb | Postgres


@pytest.fixture(params=["mariadb", "postgres"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    if found.program is None:
        found.start()
    if isinstance(found, MariaDb):
        found.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    else:
        found.clear()
    return found


@pytest.fixture
def world(server: Server, tmp_path: Path) -> Iterator[CaptureWorld]:
    (tmp_path / "cdc.toml").write_text("chunk_rows = 2")
    made = CaptureWorld(tmp_path, server.url, more=("-c", str(tmp_path / "cdc.toml")))
    yield made
    made.close()


async def test_rows_are_read_again_while_changes_go_on(server: Server, world: CaptureWorld) -> None:
    table = "shop.orders" if isinstance(server, MariaDb) else "orders"
    values = ", ".join(f"({number}, 'first')" for number in range(1, 801))
    server.run(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, note VARCHAR(40))", f"INSERT INTO {table} VALUES {values}",
    )  # fmt: skip
    topic = "cdc-shop-orders" if isinstance(server, MariaDb) else "cdc-shop-public-orders"
    world.start_capture()
    await world.status_once(lambda found: found["phase"] == "stream")
    asked = world.command("snapshot", "--json", "shop.*orders")
    assert json.loads(asked.stdout) == {"source": "test", "tables": ["shop.*orders"], "state": "asked"}

    turns = count(1)

    def is_under_way(found: dict[str, Any]) -> bool:
        turn = next(turns)
        server.run(f"UPDATE {table} SET note = 'turn {turn}' WHERE id % 70 = {turn % 70}")
        return bool(found["phase"] == "stream and snapshot" or found["messages"] > 2000)

    await world.status_once(is_under_way)
    world.kill_capture()
    server.run(f"UPDATE {table} SET note = 'away' WHERE id > 780", f"INSERT INTO {table} VALUES (9000, 'late')")
    world.start_capture()
    rows = server.rows(f"SELECT id, note FROM {table}")
    expected = {f'{{"id": {number}}}': {"id": number, "note": note} for number, note in rows}
    await world.status_once(lambda found: found["phase"] == "stream" and found["messages"] > 1600)
    events = await world.settled(topic, lambda found: rows_of(found) == expected)
    check_once(events)
    read = Counter(event.key["id"] for event in events if event.op is Op.READ and event.key)
    assert {read[number] for number in range(1, 801)} == {2}
    assert read[9000] <= 1  # it may have come when all was read
    none = world.command("snapshot", "--wait", "shop.none")
    assert (none.returncode, "no table is captured that matches shop.none" in none.stderr) == (78, True)
