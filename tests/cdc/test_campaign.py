"""Random workloads with kills in between: the sink equals the source, and every change is there once and in order.

A long campaign, run by hand: `pytest -m slow -s tests/cdc/test_campaign.py`. PYROMQ_CAMPAIGN_CHANGES says how many
changes each database makes at least; 100000 were asked for where docs/cdc.md tells of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyromq import admin
from pyromq.admin.calls import Calls
from pyromq.ambient import SystemClock
from pyromq.client.client import connect
from tests.cdc.mariadb import MariaDb, require_mariadb
from tests.cdc.mysql import MySql, require_mysqld
from tests.cdc.postgres import Postgres, require_postgres
from tests.cdc.workload import Table, insert_into_all, leave_open, make_numbers
from tests.cdc.world import CaptureWorld, check_once, rows_of

CHANGES = int(os.environ.get("PYROMQ_CAMPAIGN_CHANGES", "20000"))
TABLES = 3
PATIENCE_S = 120.0  # without a change that comes

KEYS = st.integers(0, 400)
STEPS = st.lists(
    st.tuples(
        st.integers(0, TABLES - 1),
        st.one_of(
            st.tuples(st.sampled_from(["insert", "insert", "roll back", "all"]), KEYS, st.integers(1, 300)),
            st.tuples(st.just("update"), st.integers(1, 9), st.integers(0, 9)),
            st.tuples(st.just("delete"), st.integers(3, 9), st.integers(0, 9)),
            st.tuples(st.just("move"), KEYS, KEYS),
            st.tuples(st.just("large"), st.integers(0, 20_000), st.integers(1000, 9000)),
            st.tuples(st.sampled_from(["add", "drop", "rename", "retype", "truncate"]), st.just(0), st.just(0)),
            st.tuples(st.sampled_from(["capture", "broker", "database", "open"]), st.just(0), st.just(0)),
        ),
    ),
    min_size=20,
    max_size=60,
)  # fmt: skip


class Campaign:
    """One database, one broker and one capture, through as many examples as it takes."""

    def __init__(self, server: MariaDb | Postgres, world: CaptureWorld) -> None:
        self.server, self.world = server, world
        self.changes, self.kills = 0, 0
        self.stored: dict[str, int] = {}  # by topic: what has to be in it in the end, too
        self._names = count(1)

    def example(self, steps: Sequence[tuple[int, tuple[str, int, int]]]) -> None:
        tables = [Table(self.server, f"t{next(self._names)}") for _ in range(TABLES)]
        for number, (what, first, second) in steps:
            self.do(tables, tables[number], what, first, second)
        for table in tables:
            table.write(lambda cursor, table=table: table.insert(cursor, 300_000, 1))  # type: ignore[misc]
        asyncio.run(self.check(tables))
        print(f"{self.changes} changes, {self.kills} kills", flush=True)

    def do(self, tables: Sequence[Table], table: Table, what: str, first: int, second: int) -> None:
        if what in ("insert", "large"):
            table.write(lambda cursor: table.insert(cursor, first, second))
        elif what == "all":
            table.write(lambda cursor: insert_into_all(cursor, tables, first, second))
        elif what == "roll back":
            table.write(lambda cursor: table.roll_back(cursor, first, second))
        elif what == "update":
            table.write(lambda cursor: table.update(cursor, first, second))
        elif what == "delete":
            table.write(lambda cursor: table.delete(cursor, first, second))
        elif what == "move":
            table.write(lambda cursor: table.move(cursor, first, second))
        elif what == "truncate":
            table.truncate()
        elif what in ("add", "drop", "rename", "retype"):
            table.alter(what)
        else:
            self.kills += 1
            self.kill(tables, what)

    def kill(self, tables: Sequence[Table], what: str) -> None:
        if what == "capture":
            self.world.kill_capture()
            self.world.start_capture()
        elif what == "broker":
            self.world.kill_broker()
            self.world.start_broker()
        elif what == "database":
            self.server.kill()
            self.server.start()
        else:
            leave_open(self.server, tables)

    async def check(self, tables: Sequence[Table]) -> None:
        """The append-only topic has as many events as the database made changes, and they fold into its rows."""
        for table in tables:
            await self.arrived(table.topic, table.changes)
            events = await self.world.events(table.topic)
            check_once(events)
            assert len(events) == table.changes, f"{table.topic}: {len(events)} events of {table.changes} changes"
            found = rows_of(sorted(events, key=lambda event: event.number))
            known = {key: {name: row.get(name) for name in table.columns} for key, row in found.items()}
            assert known == table.rows(), table.topic
            self.stored[table.topic] = table.changes
            self.changes += table.changes

    async def arrived(self, topic: str, wanted: int) -> None:
        """Wait until so many are there. Fails when nothing has come for a while."""
        clock = SystemClock()
        seen, deadline = -1, clock.monotonic() + PATIENCE_S
        while (there := await self.length(topic)) < wanted:
            if there > seen:
                seen, deadline = there, clock.monotonic() + PATIENCE_S
            said = "" if self.world.capture is None else self.world.capture.tail()
            assert clock.monotonic() < deadline, f"{topic} has {there} of {wanted} events; the capture said:\n{said}"
            await asyncio.sleep(0.2)

    async def length(self, topic: str) -> int:
        try:
            async with connect(self.world.namesrv_address) as client:
                calls, session = Calls(client.session), client.session
                queues = (await session.route(topic)).readable
                ends = [
                    await admin.offsets.end(calls, await session.master(queue), topic, queue.queue_id)
                    for queue in queues
                ]
                return sum(ends)
        except Exception:  # the broker is away, or has not made the topic yet
            return 0

    async def check_nothing_came_later(self) -> None:
        found = {topic: await self.length(topic) for topic in self.stored}
        assert found == self.stored


@pytest.fixture(params=["mariadb", "postgres", "mysql"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MariaDb | Postgres]:
    made: MariaDb | Postgres
    if request.param == "mariadb":
        require_mariadb()
        made = MariaDb(tmp_path)
    elif request.param == "mysql":
        made = MySql(tmp_path, require_mysqld())
    else:
        require_postgres()
        made = Postgres()
    yield made
    made.kill()
    if isinstance(made, Postgres):
        made.close()


@pytest.mark.slow
def test_random_workloads_with_kills(server: MariaDb | Postgres, tmp_path: Path) -> None:
    make_numbers(server)
    (tmp_path / "world").mkdir()
    include = ("shop.public.*",) if isinstance(server, Postgres) else ("shop.*",)
    world = CaptureWorld(tmp_path / "world", server.url, include=include)
    campaign = Campaign(server, world)

    @settings(
        max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None,
        phases=[Phase.generate],
    )  # fmt: skip
    @given(STEPS)
    def run(steps: list[tuple[int, tuple[str, int, int]]]) -> None:
        if campaign.changes < CHANGES:
            campaign.example(steps)

    try:
        world.start_capture().wait_for("ready")
        # A row that is written while rows are read may be read and followed, which is no change twice.
        asyncio.run(world.status_once(lambda found: found["phase"] == "stream"))
        run()
        asyncio.run(campaign.check_nothing_came_later())
        assert campaign.changes >= CHANGES
    finally:
        world.close()
