"""Changes of a real MySQL come to a real broker, each once, whatever is killed; every type as a snapshot reads it too.

By hand, since Debian 12 has no mysqld: `PYROMQ_TEST_MYSQLD=/path/to/mysqld pytest -m slow` with this file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyromq.cdc.changes import LogLost, Position, ReadBounds, RowChange
from pyromq.cdc.events import Op
from pyromq.cdc.mysql.checks import check
from pyromq.cdc.mysql.snapshot import MySqlSnapshot
from pyromq.cdc.mysql.source import MySqlSource
from tests.cdc.mysql import MySql, require_mysqld
from tests.cdc.test_mariadb_log import TYPES, in_shop
from tests.cdc.world import CaptureWorld, check_once, rows_of

pytestmark = pytest.mark.slow
NOT_MYSQLS = {"uuid_", "address", "span"}  # types of MariaDB; a TIME is cut off at its last second


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySql]:
    made = MySql(tmp_path_factory.mktemp("mysql"), require_mysqld())
    yield made
    made.kill()


@pytest.fixture
def database(server: MySql) -> MySql:
    if server.program is None:
        server.start()
    server.run("DROP DATABASE shop", "CREATE DATABASE shop")
    return server


def now(database: MySql) -> Position:
    return Position(done=database.rows("SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", ""))


def changes_since(database: MySql, start: Position) -> list[RowChange]:
    with closing(MySqlSource(database.address, "test", start, in_shop, 77)) as source:
        found: list[RowChange] = []
        while not (part := source.read(ReadBounds())).is_caught_up:
            found += part.changes
        return found + part.changes


def test_every_type_comes_whole_and_a_snapshot_reads_the_same(database: MySql) -> None:
    start = now(database)
    types = {name: each for name, each in TYPES.items() if name not in NOT_MYSQLS}
    with database.session() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"CREATE TABLE types ({', '.join(f'{name} {kind}' for name, (kind, *_) in types.items())})")
        cursor.execute(f"INSERT INTO types VALUES ({', '.join(value for _, value, _ in types.values())})")
    expected = {name: wanted for name, (_, _, wanted) in types.items()}
    (change,) = changes_since(database, start)
    assert change.after == expected
    with closing(MySqlSnapshot(database.address, "test", in_shop)) as snapshot:
        found = snapshot.rows("shop.types", None, 1)
        assert [each.after for each in found.changes] == [expected]
        assert found.changes[0].table == change.table
        assert snapshot.position == now(database)
    assert not [each for each in check(database.address, in_shop, snapshot.position) if each.is_bad]


def test_a_purged_log_says_how_to_go_on(database: MySql) -> None:
    start = now(database)
    database.run("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)", "FLUSH BINARY LOGS")
    database.run(f"PURGE BINARY LOGS TO '{database.rows('SHOW BINARY LOGS')[-1][0]}'")
    found = {each.what: each for each in check(database.address, in_shop, start)}
    assert "2 transactions behind it were purged" in found["position"].found
    with pytest.raises(LogLost, match="pyromq cdc reset"):
        changes_since(database, start)


async def test_rows_then_changes_each_once_with_kills_of_everything(database: MySql, tmp_path: Path) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT"
    database.run(
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, price DECIMAL(10,2), note VARCHAR(40), doc JSON)",
        f"INSERT INTO shop.orders (id, price, note) {numbers} i, i / 7, 'first' FROM n",
        f"INSERT INTO shop.orders (id, price, note) {numbers} i + 900, i / 7, 'first' FROM n",
    )
    world = CaptureWorld(tmp_path, database.url, more=("--transactions", "--heartbeat-s", "1"))
    try:
        world.start_capture().wait_for("snapshot")
        world.kill_capture()  # in the middle of the snapshot
        database.run("UPDATE shop.orders SET note = 'meanwhile' WHERE id % 100 = 0")
        world.start_capture().wait_for("ready")
        for turn in range(3):
            database.run(f"UPDATE shop.orders SET note = 'turn {turn}' WHERE id % 3 = {turn}")
            if turn == 0:
                world.kill_broker()
                database.run("INSERT INTO shop.orders VALUES (90001, 1, 'broker away', NULL)")
                world.start_broker()
            elif turn == 1:
                world.kill_capture()
                database.run("INSERT INTO shop.orders VALUES (90002, 2, 'capture away', '{\"a\": 1}')")
                database.run("ALTER TABLE shop.orders MODIFY note VARCHAR(80)")
                world.start_capture()
            else:
                database.kill()
                database.start()
                database.run("INSERT INTO shop.orders VALUES (90003, 3, 'database was away', NULL)")
        database.run("UPDATE shop.orders SET id = 90004 WHERE id = 90003")
        await world.status_once(lambda found: found["phase"] == "stream")
        rows = database.rows("SELECT id, price, note, doc FROM shop.orders")
        expected = {
            f'{{"id": {number}}}': {"id": number, "price": str(price), "note": note, "doc": doc}
            for number, price, note, doc in rows
        }
        events = await world.settled("cdc-shop-orders", lambda found: rows_of(found) == expected)
        check_once(events)
        read = Counter(str(event.key) for event in events if event.op is Op.READ)
        assert set(read.values()) == {1}, "a row was read twice"
        assert len(read) >= 1800
        status = await world.status_once(lambda found: found["under way"] == 0)
        assert [each["changes"] for each in status["schema changes"] if each["changes"]] == [
            [{"what": "retyped", "column": "note", "was": "varchar(40)", "now": "varchar(80)"}]
        ]
    finally:
        world.close()
