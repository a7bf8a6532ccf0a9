"""From a database to stores, all of it: MariaDB, `pyromq cdc run`, a broker, cdc-redis and cdc-lake; then all agree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import redis
from pyspark.sql import SparkSession

from pyromq.cdc.events import ChangeEvent
from tests.cdc.conftest import mariadb
from tests.cdc.mariadb import MariaDb
from tests.cdc.world import CaptureWorld
from tests.pipelines.stores import redis_server
from tests.pipelines.test_commands import Commands, commands
from tests.spark.servers import Servers

__all__ = ["commands", "mariadb"]

TABLE = "shop.joined"
TOPIC = "cdc-shop-joined"
Rows = dict[int, dict[str, str]]


def stored(world: CaptureWorld, last: int) -> None:
    """Wait until all events up to the one of this key are in the topic: their numbers have no gap."""

    def are_all(events: Sequence[ChangeEvent]) -> bool:
        numbers = {event.number for event in events}
        until = [event.number for event in events if event.key == {"id": last}]
        return bool(until) and set(range(min(numbers), max(until) + 1)) <= numbers

    asyncio.run(world.settled(TOPIC, are_all))


def of_source(database: MariaDb, columns: Sequence[str]) -> Rows:
    found = database.rows(f"SELECT {', '.join(columns)} FROM {TABLE}")
    return {row[0]: present(dict(zip(columns, row, strict=True))) for row in found}


def of_redis(url: str) -> Rows:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        names = [name for name in client.scan_iter(f"{TABLE}:*") if not name.endswith("#deleted")]
        found: list[Any] = [client.hgetall(name) for name in names]
    return {int(row["id"]): present(row) for row in found}


def of_lake(folder: Path) -> Rows:
    found = deltalake.DeltaTable(str(folder / TABLE)).to_pyarrow_table().to_pylist()
    return {row["id"]: present(row) for row in found if not row["cdcDeleted"]}


def present(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items() if value is not None and not name.startswith("cdc")}


def test_stores_have_the_rows_of_the_database(
    spark: SparkSession, servers: Servers, commands: Commands, mariadb: MariaDb, tmp_path: Path
) -> None:
    """Changes of rows, keys and columns, a rollback, a killed capture, TRUNCATE; each store goes on in the next run."""
    with mariadb.session() as cursor:
        cursor.execute(
            f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, name varchar(40), price decimal(12,4), note text)"
        )
        some = [(at, f"pen {at}", f"{at}.0500", None if at % 3 else "纸") for at in range(40)]
        cursor.executemany(f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s)", some)
    world = CaptureWorld(tmp_path, mariadb.url, include=(TABLE,))
    try:
        world.start_capture().wait_for("ready")
        with mariadb.session() as cursor:
            cursor.execute(f"UPDATE {TABLE} SET price = price * 2 WHERE id % 4 = 0")
            cursor.execute(f"DELETE FROM {TABLE} WHERE id % 5 = 1")
            cursor.execute(f"UPDATE {TABLE} SET id = id + 100 WHERE id % 10 = 2")
            cursor.execute(f"INSERT INTO {TABLE} VALUES (500, 'last', 1, NULL)")
        stored(world, 500)
        ways = Ways(Commands(world.namesrv_address, tmp_path), tmp_path)
        with redis_server(tmp_path) as (url, _):
            first = ways.run(url)
            assert of_redis(url) == of_lake(tmp_path / "lake") == of_source(mariadb, ("id", "name", "price", "note"))

            world.kill_capture()
            with mariadb.session() as cursor:
                cursor.execute(f"ALTER TABLE {TABLE} DROP COLUMN note, ADD COLUMN weight double")
                cursor.execute(f"ALTER TABLE {TABLE} RENAME COLUMN name TO title")
                cursor.execute(f"UPDATE {TABLE} SET weight = id / 8, title = concat(title, '!')")
                cursor.connection.commit()
                cursor.execute(f"DELETE FROM {TABLE}")
                cursor.connection.rollback()
                cursor.execute(f"INSERT INTO {TABLE} VALUES (501, 'new', 2, 0.5)")
            world.start_capture().wait_for("ready")
            with mariadb.session() as cursor:
                cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 'back', 2, NULL), (502, 'last', 3, NULL)")
            stored(world, 502)
            second = ways.run(url)
            columns = ("id", "title", "price", "weight")
            assert of_redis(url) == of_lake(tmp_path / "lake") == of_source(mariadb, columns)

            mariadb.run(
                f"TRUNCATE TABLE {TABLE}", f"INSERT INTO {TABLE} VALUES (2, 'anew', 2, NULL), (503, 'z', 3, NULL)"
            )
            stored(world, 503)
            third = ways.run(url)
            assert of_redis(url) == of_lake(tmp_path / "lake") == of_source(mariadb, columns)
            assert of_redis(url).keys() == {2, 503}
    finally:
        world.close()
    for told in (*first, *second, *third):
        assert (told["notDelivered"], told["repeats"]) == (0, 0)


class Ways:
    """Both deliveries, each with its own folder."""

    def __init__(self, commands: Commands, folder: Path) -> None:
        self._commands, self._folder = commands, folder

    def run(self, url: str) -> list[dict[str, Any]]:
        given = ("--topic", TOPIC)
        return [
            self._commands.run("cdc-redis", "--redis", url, "--tasks", "2", *given, str(self._folder / "to-redis")),
            self._commands.run(
                "cdc-lake", "--delta", str(self._folder / "lake"), *given, str(self._folder / "to-lake")
            ),
        ]
