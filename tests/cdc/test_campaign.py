"""Random workloads with kills in between: the sink equals the source, and every change is there once and in order.

A long campaign, run by hand: `pytest -m slow tests/cdc/test_campaign.py`.
"""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cdc.mariadb import MariaDb, require_mariadb
from tests.cdc.world import CaptureWorld, check_once, rows_of

KEYS = st.integers(0, 400)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), KEYS, st.integers(1, 300)),
        st.tuples(st.just("update"), st.integers(2, 9), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(3, 9), st.integers(0, 9)),
        st.tuples(st.just("move"), KEYS, KEYS),
        st.tuples(st.just("roll back"), KEYS, st.integers(1, 300)),
        st.tuples(st.just("large"), st.integers(1000, 9000), st.just(0)),
        st.tuples(st.just("add"), st.just(0), st.just(0)),
        st.tuples(st.just("drop"), st.just(0), st.just(0)),
        st.tuples(st.just("capture"), st.just(0), st.just(0)),
        st.tuples(st.just("broker"), st.just(0), st.just(0)),
        st.tuples(st.just("database"), st.just(0), st.just(0)),
    ),
    min_size=10,
    max_size=60,
)


class Workload:
    """One table of one example."""

    def __init__(self, server: MariaDb, world: CaptureWorld, table: str) -> None:
        self.server, self.world, self.table = server, world, table
        self.columns = ["id", "a"]
        self._names = count(1)
        server.run(f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, a VARCHAR(40))")

    def do(self, what: str, first: int, second: int) -> None:
        if what in ("insert", "roll back"):
            with self.server.session() as cursor:
                cursor.execute(
                    f"INSERT IGNORE INTO {self.table} (id, a) SELECT {first} + seq, UUID() FROM seq_1_to_{second}"
                )
                if what == "roll back":
                    cursor.execute("ROLLBACK")
        elif what == "update":
            self.server.run(f"UPDATE shop.{self.table} SET a = UUID() WHERE id % {first} = {second % first}")
        elif what == "delete":
            self.server.run(f"DELETE FROM shop.{self.table} WHERE id % {first} = {second % first}")
        elif what == "move":
            self.server.run(f"UPDATE IGNORE shop.{self.table} SET id = {second + 5000} WHERE id = {first}")
        elif what == "large":
            with self.server.session() as cursor:
                cursor.execute(f"REPLACE INTO {self.table} (id, a) SELECT 9000 + seq, 'x' FROM seq_1_to_{first}")
        else:
            self._disturb(what)

    def _disturb(self, what: str) -> None:
        if what == "add":
            self.columns.append(name := f"c{next(self._names)}")
            self.server.run(f"ALTER TABLE shop.{self.table} ADD {name} INT")
            self.server.run(f"UPDATE shop.{self.table} SET {name} = id * 3")
        elif what == "drop" and len(self.columns) > 2:
            self.server.run(f"ALTER TABLE shop.{self.table} DROP {self.columns.pop()}")
        elif what == "capture":
            self.world.kill_capture()
            self.world.start_capture()
        elif what == "broker":
            self.world.kill_broker()
            self.world.start_broker()
        elif what == "database":
            self.server.kill()
            self.server.start()

    def rows(self) -> dict[str, Any]:
        names = ", ".join(self.columns)
        found = self.server.rows(f"SELECT {names} FROM shop.{self.table}")
        return {f'{{"id": {row[0]}}}': dict(zip(self.columns, row, strict=True)) for row in found}


@pytest.mark.slow
def test_random_workloads_with_kills(tmp_path: Path) -> None:
    require_mariadb()
    server = MariaDb(tmp_path)
    (tmp_path / "world").mkdir()
    world = CaptureWorld(tmp_path / "world", server.url)
    numbers, changes = count(1), 0

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(STEPS)
    def campaign(steps: list[tuple[str, int, int]]) -> None:
        nonlocal changes
        work = Workload(server, world, f"t{next(numbers)}")
        for step in steps:
            work.do(*step)
        work.do("insert", 70_000, 1)  # so that the topic is there in any case
        expected = work.rows()

        def is_right(events: list[Any]) -> bool:
            known = {key: {name: row.get(name) for name in work.columns} for key, row in rows_of(events).items()}
            return known == expected

        events = asyncio.run(world.settled(f"cdc-shop-{work.table}", is_right))
        check_once(events)
        changes += len(events)

    try:
        world.start_capture().wait_for("ready")
        campaign()
        print(f"{changes} events were each stored once")
    finally:
        world.close()
        server.kill()
