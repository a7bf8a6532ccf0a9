"""Changes of a real MariaDB come to a real broker, each once, whatever is killed in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.cdc.events import Op
from tests.cdc.mariadb import MariaDb
from tests.cdc.world import CaptureWorld, check_once, rows_of


@pytest.fixture
def world(mariadb: MariaDb, tmp_path: Path) -> Iterator[CaptureWorld]:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    made = CaptureWorld(tmp_path, mariadb.url)
    yield made
    made.close()


async def test_rows_then_changes_each_once_with_kills_of_everything(world: CaptureWorld, mariadb: MariaDb) -> None:
    mariadb.run(
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, price DECIMAL(10,2), note VARCHAR(40))",
        "INSERT INTO shop.orders SELECT seq, seq / 7, 'first' FROM shop.seq_1_to_3000",
    )
    world.start_capture().wait_for("snapshot")
    world.kill_capture()  # in the middle of the snapshot
    mariadb.run("UPDATE shop.orders SET note = 'meanwhile' WHERE id % 100 = 0", "DELETE FROM shop.orders WHERE id = 7")
    world.start_capture().wait_for("ready")
    for turn in range(3):
        mariadb.run(f"UPDATE shop.orders SET note = 'turn {turn}' WHERE id % 3 = {turn}")
        if turn == 0:
            world.kill_broker()
            mariadb.run("INSERT INTO shop.orders VALUES (90001, 1, 'broker away')")
            world.start_broker()
        elif turn == 1:
            world.kill_capture()
            mariadb.run(
                "INSERT INTO shop.orders VALUES (90002, 2, 'capture away')",
                "ALTER TABLE shop.orders MODIFY note VARCHAR(80)",
            )
            world.start_capture()
        else:
            mariadb.kill()
            mariadb.start()
            mariadb.run("INSERT INTO shop.orders VALUES (90003, 3, 'database was away')")
    mariadb.run("UPDATE shop.orders SET id = 90004 WHERE id = 90003")

    rows = {each[0]: each for each in mariadb.rows("SELECT id, price, note FROM shop.orders")}
    expected = {
        f'{{"id": {number}}}': {"id": number, "price": str(price), "note": note}
        for number, price, note in rows.values()
    }
    # The updates alone make the rows right, before those that were left of the snapshot are read on a slow machine.
    await world.status_once(lambda found: found["phase"] == "stream")
    events = await world.settled("cdc-shop-orders", lambda found: rows_of(found) == expected)
    check_once(events)
    read = Counter(str(event.key) for event in events if event.op is Op.READ)
    assert set(read.values()) == {1}, "a row was read twice"
    assert len(read) >= 2999  # row 7 may be gone before its turn, and rows that came meanwhile may be read
    assert {event.op for event in events} == {Op.READ, Op.CREATE, Op.UPDATE, Op.DELETE}
    status = await world.status_once(lambda found: found["under way"] == 0)
    assert status["phase"] == "stream"
    assert [each["changes"] for each in status["schema changes"] if each["changes"]] == [
        [{"what": "retyped", "column": "note", "was": "varchar(40)", "now": "varchar(80)"}]
    ]
    said = [each["statement"] for each in status["schema changes"] if each["statement"]]
    assert said[-1] == "ALTER TABLE shop.orders MODIFY note VARCHAR(80)"
