"""Boundaries of transactions and heartbeats: of a synthetic log, and of both databases with a kill in a large one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.cdc.changes import Column, RowChange, SourceTable
from pyromq.cdc.events import Op, decode_event
from pyromq.cdc.outgoing.captured import Captured
from pyromq.cdc.outgoing.messages import messages_of
from pyromq.cdc.outgoing.transactions import Boundaries, TransactionProgress
from pyromq.cdc.rules import Rules
from tests.cdc.mariadb import MariaDb
from tests.cdc.postgres import Postgres
from tests.cdc.world import CaptureWorld
from tests.interop.waiting import eventually

Server = MariaDb | Postgres
RULES = Rules(transactions=True, tombstones=True)
TABLES = {name: SourceTable("shop", name, (Column("id", "int", "int32", is_key=True),)) for name in "ab"}


def change(table: str, transaction: str, op: Op = Op.CREATE, before: int | None = None, after: int = 1) -> RowChange:
    old = None if before is None else {"id": before}
    return RowChange(TABLES[table], op, old, None if op is Op.DELETE else {"id": after}, 5, {"db": "shop"}, transaction)


def told(messages: list[Captured]) -> list[Any]:
    found: list[Any] = []
    for each in messages:
        body = json.loads(each.body)
        if body is None:
            found.append("tombstone")
        elif "status" in body:
            counts = {one["data_collection"]: one["event_count"] for one in body["data_collections"] or ()}
            found.append((body["status"], body["id"], body["event_count"], counts))
        else:
            block = decode_event("t", each.body, each.properties).transaction
            found.append(tuple(block.values()) if block else None)
    return found


def test_each_event_has_its_place_and_ends_count_them_over_several_rounds() -> None:
    log = [
        change("a", "", Op.READ), change("a", "0-1-1"), change("b", "0-1-1", Op.UPDATE, 1, 2),
        change("a", "0-1-1", Op.DELETE, 1), change("b", "0-1-2"),
    ]  # fmt: skip
    expected: list[Any] = [
        None,
        ("BEGIN", "0-1-1", None, {}),
        ("0-1-1", 1, 1), ("0-1-1", 2, 1), "tombstone", ("0-1-1", 3, 2), ("0-1-1", 4, 2), "tombstone",
        ("END", "0-1-1", 4, {"shop.a": 2, "shop.b": 2}),
        ("BEGIN", "0-1-2", None, {}),
        ("0-1-2", 1, 1),
        ("END", "0-1-2", 1, {"shop.b": 1}),
    ]  # fmt: skip
    for cut in range(len(log) + 1):
        messages: list[Captured] = []
        progress: TransactionProgress | None = None
        for part, is_over in ((log[:cut], False), (log[cut:], False), ([], True)):
            boundaries = Boundaries(progress, RULES)
            messages += messages_of(part, RULES, len(messages), 9, boundaries, is_over=is_over)
            progress = boundaries.progress
        assert told(messages) == expected
        assert [each.properties["cdcNumber"] for each in messages] == [str(number) for number in range(len(messages))]
        assert progress is None


@pytest.fixture(params=["mariadb", "postgres"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    if found.program is None:
        found.start()
    if isinstance(found, MariaDb):
        found.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
        found.run("CREATE OR REPLACE DATABASE elsewhere", "CREATE TABLE elsewhere.t (id INT PRIMARY KEY)")
    else:
        found.clear()
        found.run(
            "CREATE SCHEMA IF NOT EXISTS elsewhere", "CREATE TABLE IF NOT EXISTS elsewhere.t (id INT PRIMARY KEY)"
        )
    return found


@pytest.fixture
def world(server: Server, tmp_path: Path) -> Iterator[CaptureWorld]:
    include = ("shop.*",) if isinstance(server, MariaDb) else ("shop.public.*",)
    made = CaptureWorld(tmp_path, server.url, include=include, more=("--transactions", "--heartbeat-s", "1"))
    yield made
    made.close()


async def test_a_transaction_is_whole_through_a_kill_and_a_quiet_source_beats(
    server: Server, world: CaptureWorld
) -> None:
    server.run(*(f"CREATE TABLE {of(server, name)} (id INT PRIMARY KEY)" for name in "ab"))
    world.start_capture()
    await world.status_once(lambda found: found["phase"] == "stream")
    values = ", ".join(f"({number})" for number in range(30_000))
    with server.session() as cursor:
        cursor.execute(f"INSERT INTO a VALUES {values}")
        cursor.execute("INSERT INTO b VALUES (1), (2)")
    await world.status_once(lambda found: found["messages"] > 4000)
    world.kill_capture()
    server.run(f"DELETE FROM {of(server, 'b')} WHERE id = 1")
    world.start_capture()
    topics = [f"cdc-{of(server, name, full=True).replace('.', '-')}" for name in "ab"]
    await world.settled(topics[1], lambda found: any(each.op is Op.DELETE for each in found))
    await world.status_once(lambda found: found["under way"] == 0)

    events = [each for topic in topics for each in await world.events(topic)]
    blocks = [each.transaction for each in events if each.transaction]
    assert len(blocks) == len(events) == 30_003
    large = Counter(each["id"] for each in blocks).most_common(1)[0][0]
    assert sorted(each["total_order"] for each in blocks if each["id"] == large) == list(range(1, 30_003))
    boundaries = [json.loads(body) for body, _ in await world.messages("cdc-transaction")]
    assert [each["status"] for each in boundaries] == ["BEGIN", "END"] * 2
    assert boundaries[1]["id"] == boundaries[0]["id"] == large
    counts = {each["data_collection"]: each["event_count"] for each in boundaries[1]["data_collections"]}
    assert sorted(counts.values()) == [2, 30_000]

    before = saved_by(server, world)
    server.run("TRUNCATE elsewhere.t", "INSERT INTO elsewhere.t VALUES (1)")

    eventually(lambda: saved_by(server, world) != before, "the position moves on, though nothing of ours is written")
    beats = await world.messages("cdc-heartbeat")
    assert beats
    assert {tuple(json.loads(body)) for body, _ in beats} == {("ts_ms",)}
    assert {properties["cdcKey"] for _, properties in beats} == {'{"serverName":"test"}'}
    assert all(properties["cdcPosition"] for _, properties in beats)


def of(server: Server, table: str, *, full: bool = False) -> str:
    if isinstance(server, MariaDb):
        return f"shop.{table}"
    return f"shop.public.{table}" if full else table


def saved_by(server: Server, world: CaptureWorld) -> str:
    """Return how far the capture is to the database: PostgreSQL's slot, else the position on disk."""
    if isinstance(server, MariaDb):
        return str(world.status()["position"])
    ((place,),) = server.rows("SELECT confirmed_flush_lsn FROM pg_replication_slots")
    return str(place)
